package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/envfile"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/ownjob"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/packager"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/sbatch"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// runOptions are the flags of the command run.
type runOptions struct {
	job               ownjob.Flags
	gpus              int
	envFile           string
	folder            string
	listFiles, detach bool
	idempotency       string
}

// lockFile is the file of an environment that is used without a flag.
const lockFile = "uv.lock"

func (t *tool) run() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use: "run COMMAND...", GroupID: groupWork, Short: "Run your own command as a job, and follow it",
		Long: `Pack the working folder, run a command in it as a job, and print its log until it has ended. The exit status is that of the command, and
the last line on standard output is its own; it is 9 if the job ended for another reason, such as a stop. Flags stand before the command.

Ctrl-C only stops following: the job continues. The message states how to follow it again and how to stop it.

Files are packed as by "signalbox jobs submit --folder": without those that .gitignore and .signalboxignore exclude. A file that looks like a
secret is refused, and nothing is sent.

A script with #SBATCH lines, alone or after a shell, takes effect as with sbatch: nodes, GPUs, CPUs, memory, time, name, pool (--partition)
and --output, a file below the working folder to which the log is written too. It replaces no file that is sent; one that ends in .log or
.out is not sent. Flags win over lines. A line that has no meaning here is refused with its number and the remedy. Another script of the
folder is run by the interpreter of its first line.

What the command writes to its folder is gone when the job ends, unless it reports it: run.artifact of the module signalbox keeps a file, and
"signalbox artifacts pull" downloads it.

The environment is an interpreter of the node (--python), that of a file with pinned packages (--requirements) or of uv.lock in the folder, or
otherwise Python with only the module signalbox. Without --pool, the job runs in the pool default, or in the only one.

A file for --env-file has lines NAME=value; nothing in them is expanded. The variables are a part of the job, which others in the project can read.`,
		Example: `signalbox run -- python train.py --lr 0.001
signalbox run --gpus 8 --time 12h -- torchrun --nproc-per-node 8 train.py
signalbox run --requirements requirements.txt --env-file train.env python train.py
signalbox run --pool h100 train.sbatch
signalbox run --list-files`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("gpus") {
				o.job.GPUs = &o.gpus
			}
			return t.runOwn(cmd, args, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is its own
	f.IntVar(&o.gpus, "gpus", 0, "GPUs on each node")
	f.IntVar(&o.job.Nodes, "nodes", 0, "number of nodes; the command runs on each of them; 1 if unset")
	f.StringVar(&o.job.Pool, "pool", "", "pool of the nodes")
	f.StringVar(&o.job.Time, "time", "", "how long the job may run, such as 90m or 1-12:00:00")
	f.StringVar(&o.job.Name, "name", "", "name of the job")
	f.StringVar(&o.envFile, "env-file", "", "file with environment variables, NAME=value; - reads standard input")
	f.StringVar(&o.job.Python, "python", "", "name of an interpreter that the nodes offer")
	f.StringVar(&o.job.Requirements, "requirements", "", "file of the folder with the packages of the environment, pinned by hashes, or a uv.lock")
	f.StringVar(&o.folder, "folder", ".", "folder with the code, in which the command runs")
	f.BoolVar(&o.listFiles, "list-files", false, "print the files of the folder and send nothing")
	f.BoolVar(&o.detach, "detach", false, "print the job and do not follow it")
	f.StringVar(&o.idempotency, "idempotency-key", "", "a repeat with the same key creates no second job")
	must(cmd.MarkFlagDirname("folder"))
	return cmd
}

func (t *tool) runOwn(cmd *cobra.Command, args []string, o runOptions) error {
	if err := noEmptyFlag(cmd); err != nil {
		return err
	}
	if o.listFiles {
		return t.listFolder(cmd, o.folder)
	}
	c, err := t.Client()
	if err != nil {
		return err
	}
	r, err := t.ownRequest(cmd, args, o)
	if err != nil {
		return err
	}
	packed, err := t.packFolder(cmd.Context(), o.folder, ownFiles(r, o)...)
	if err != nil {
		return err
	}
	defer packed.close()
	if err := t.requireSent(&r, packed.listing); err != nil {
		return err
	}
	if err := o.keepsSent(r, packed.listing); err != nil {
		return err
	}
	raw, err := t.createOwn(cmd, c, r, packed, o)
	if err != nil {
		return err
	}
	if o.detach {
		if r.Script != nil && r.Script.Output != "" {
			t.Say("%s: --output has no effect with --detach; signalbox logs prints the log", r.ScriptPath)
		}
		return t.print(jobKind().columns, raw)
	}
	return t.followOwn(cmd, c, raw, r)
}

// ownRequest returns what the command line, the script and the file of variables request. It refuses what no job can have before the
// folder is packed.
func (t *tool) ownRequest(cmd *cobra.Command, args []string, o runOptions) (ownjob.Request, error) {
	r := ownjob.Request{Flags: o.job, Command: args}
	if err := t.notOfRuns(cmd, args); err != nil {
		return r, err
	}
	chosen, err := t.Settings()
	if err != nil {
		return r, err
	}
	r.Project = chosen.Project
	r, err = r.WithScript(o.folder)
	if refused, ok := errors.AsType[*ownjob.ScriptError](err); ok {
		return r, scriptProblem(refused)
	}
	if err == nil {
		_, err = ownjob.Spec(r)
	}
	if err != nil {
		return r, session.Usage("%s", err)
	}
	if r.Script != nil {
		for _, warning := range r.Script.Warnings {
			t.Say("%s: %s", r.ScriptPath, warning)
		}
	}
	if err := o.checkOutput(r); err != nil {
		return r, err
	}
	if o.envFile == "" {
		return r, nil
	}
	text, err := t.readFile(o.envFile, maxBody)
	if err != nil {
		return r, err
	}
	if r.Env, err = envfile.Parse(string(text)); err != nil {
		return r, session.Usage("%s: %s", o.envFile, err)
	}
	return r, nil
}

// ownFiles returns the paths of the files of the folder that this command itself reads or writes: that of the variables, and that of the
// log, if it has the name of one.
func ownFiles(r ownjob.Request, o runOptions) []string {
	files := []string{o.envFile}
	if output := outputBefore(r, "%u"); isLog(output) {
		files = append(files, output)
	}
	var inside []string
	for _, file := range files {
		if path, ok := inFolder(o.folder, file); ok && file != "" {
			inside = append(inside, filepath.ToSlash(path))
		}
	}
	return inside
}

// inFolder returns the path of a file relative to a folder, and whether it is below it.
func inFolder(folder, file string) (string, bool) {
	from, err := filepath.Abs(folder)
	if err != nil {
		return "", false
	}
	to, err := filepath.Abs(file)
	if err != nil {
		return "", false
	}
	path, err := filepath.Rel(from, to)
	return path, err == nil && filepath.IsLocal(path)
}

// noEmptyFlag refuses flags whose value is empty, as that of a variable of the shell that is not set.
func noEmptyFlag(cmd *cobra.Command) error {
	for _, name := range []string{"pool", "time", "name", "env-file", "python", "requirements", "folder", "idempotency-key"} {
		if f := cmd.Flags().Lookup(name); f.Changed && strings.TrimSpace(f.Value.String()) == "" {
			return session.Usage("--%s must not be empty", name)
		}
	}
	if f := cmd.Flags().Lookup("nodes"); f.Changed && f.Value.String() == "0" {
		return session.Usage("--nodes must be at least 1")
	}
	return nil
}

// notOfRuns refuses a command that is meant for "signalbox runs".
func (t *tool) notOfRuns(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || cmd.ArgsLenAtDash() >= 0 || below(below(cmd.Root(), "runs"), args[0]) == nil {
		return nil
	}
	return session.Usage("did you mean signalbox runs %s? To run a program called %s, write: signalbox run -- %s", args[0], args[0], args[0])
}

// scriptProblem returns the error for a script that cannot be submitted, with a line for each refused one.
func scriptProblem(e *ownjob.ScriptError) error {
	refused, ok := errors.AsType[sbatch.RefusedErrors](e)
	if !ok {
		return session.Usage("%s", e)
	}
	lines := make([]string, len(refused))
	for i, one := range refused {
		lines[i] = e.File + ": " + sbatch.RefusedErrors{one}.Error()
	}
	return &LinesError{lines}
}

// requireSent requires that the package has the files that the job needs. A lock in the folder is used if no flag chooses an environment.
func (t *tool) requireSent(r *ownjob.Request, sent *packager.Listing) error {
	if r.Flags.Python == "" && r.Flags.Requirements == "" && sent.Has(lockFile) {
		r.Flags.Requirements = lockFile
		t.Say("the environment is that of %s; --python or --requirements choose another one", lockFile)
	}
	for _, file := range []string{r.ScriptPath, r.Flags.Requirements} {
		if name := filepath.ToSlash(filepath.Clean(file)); file != "" && !sent.Has(name) {
			return session.Usage("%s is not among the files that are sent; see signalbox run --list-files", name)
		}
	}
	return nil
}

// createOwn sends the package and creates the job.
func (t *tool) createOwn(cmd *cobra.Command, c *client.Client, r ownjob.Request, packed *codePackage, o runOptions) (json.RawMessage, error) {
	ctx := cmd.Context()
	if r.Pool() == "" {
		pool, err := t.choosePool(ctx, c, r.GPUs())
		if err != nil {
			return nil, err
		}
		r.DefaultPool = pool
	}
	spec, err := ownjob.Spec(r)
	if err != nil {
		return nil, session.Usage("%s", err)
	}
	if err := t.lockRecipe(ctx, c, spec); err != nil {
		return nil, err
	}
	if err := t.sendPackage(ctx, c, spec, packed); err != nil {
		return nil, err
	}
	key := o.idempotency
	if key == "" {
		key = t.NewKey()
	}
	var raw json.RawMessage
	err = t.createOnce(ctx, c.WithIdempotencyKey(key), jobKind().path, map[string]any{"api": jobDialect, "spec": spec}, &raw)
	if err != nil && ctx.Err() != nil {
		t.Say("the job may have been submitted; signalbox jobs ls shows it")
	}
	if err != nil {
		return nil, t.explainRefusal(ctx, c, jobFile{spec: spec}, err)
	}
	return raw, nil
}

func (t *tool) choosePool(ctx context.Context, c *client.Client, gpus int) (string, error) {
	var cluster struct {
		Pools []ownjob.Pool `json:"pools"`
	}
	if err := c.Get(ctx, "/api/cluster", nil, &cluster); err != nil {
		return "", fmt.Errorf("list the pools: %w", err)
	}
	pool, err := ownjob.ChoosePool(cluster.Pools, gpus)
	if err != nil {
		return "", session.Usage("%s", err)
	}
	return pool, nil
}
