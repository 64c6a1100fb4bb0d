package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/jobfile"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

type submitOptions struct {
	file        string
	name        string
	hparams     []string
	sets        []string
	demo        bool
	dryRun      bool
	follow      bool
	folder      string
	listFiles   bool
	idempotency string
}

// submit returns the command that submits a job file. Its examples call it by the given name.
func (t *tool) submit(name string) *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use: "submit [FILE]", Short: "Submit the job of a file", Args: arguments(0, 1),
		Long: `Submit the job that a file in YAML or JSON describes: the members of its spec ("signalbox explain jobspec"), or a whole request with api and
spec. The newest version of the recipe and its lock are used if the file has none. --dry-run runs all checks and creates no job. With
--follow, the log is printed until the job has ended, and the exit status is 9 if it has not succeeded.

With --folder, the files of a folder are the code of a custom/custom job: they are packed and uploaded, without those that .gitignore and
.signalboxignore of the folder exclude. A file that looks like a secret by its name or content is refused, and nothing is sent. --list-files prints
the files and sends nothing.

A refusal names the line of the file and what mends it.`,
		Example: strings.ReplaceAll(`signalbox init --recipe demo/chat-tiny
NAME job.yaml --dry-run
NAME job.yaml --hparam optim.lr=0.001 --follow
NAME job.yaml --set resources.pools.0.nodes=2 --set env.HF_HOME=/tmp/hf
NAME job.yaml --folder . --follow
NAME --folder . --list-files
NAME --demo --follow`, "NAME", name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.nameFile(args); err != nil {
				return err
			}
			return t.runSubmit(cmd, o)
		},
	}
	f := cmd.Flags()
	addJobFile(cmd, &o)
	f.BoolVar(&o.dryRun, "dry-run", false, "run all checks and create no job")
	f.BoolVar(&o.follow, "follow", false, "print the log until the job has ended")
	f.BoolVar(&o.demo, "demo", false, "train the tiny model of the demo instead of the job of a file; --follow draws its curve")
	f.BoolVar(&o.listFiles, "list-files", false, "print the files of --folder and send nothing")
	f.StringVar(&o.idempotency, "idempotency-key", "", "a repeat with the same key creates no second job")
	return cmd
}

// submitAlias returns the command submit beside the nouns.
func (t *tool) submitAlias() *cobra.Command {
	cmd := t.submit("signalbox submit")
	cmd.GroupID = groupWork
	return cmd
}

// addJobFile adds the flags that choose a job file and change the job.
func addJobFile(cmd *cobra.Command, o *submitOptions) {
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the job; - reads standard input")
	f.StringVar(&o.name, "name", "", "name of the job, in place of the one in the file")
	f.StringArrayVar(&o.hparams, "hparam", nil, "hyperparameter: key=value; can be repeated")
	f.StringArrayVar(&o.sets, "set", nil, "member of the spec: path=value, such as limits.running_s=3600; can be repeated")
	f.StringVar(&o.folder, "folder", "", "folder with the code of the job, which is packed and uploaded")
	must(cmd.MarkFlagFilename("file", "yaml", "yml", "json"))
	must(cmd.MarkFlagDirname("folder"))
}

// nameFile takes the file from the arguments.
func (o *submitOptions) nameFile(args []string) error {
	if len(args) > 0 && o.file != "" {
		return session.Usage("the file is named twice: %s and %s", args[0], o.file)
	}
	if len(args) > 0 {
		o.file = args[0]
	}
	switch {
	case o.listFiles && o.folder == "":
		return session.Usage("--list-files needs --folder")
	case o.demo && (o.file != "" || o.folder != ""):
		return session.Usage("--demo submits a job of its own; leave out %s", cmp.Or(o.file, "--folder"))
	case o.file == "" && !o.demo && !o.listFiles:
		return session.Usage("name a file with a job, or - for standard input; signalbox init --recipe RECIPE writes one to begin with")
	}
	return nil
}

func (t *tool) runSubmit(cmd *cobra.Command, o submitOptions) error {
	if o.listFiles {
		return t.listFolder(cmd, o.folder)
	}
	c, err := t.Client()
	if err != nil {
		return err
	}
	var file jobFile
	if o.demo {
		file, err = t.demoJob(cmd.Context(), c, o)
	} else {
		file, err = t.readJob(o)
	}
	if err != nil {
		return err
	}
	if err := t.completeSpec(cmd, c, file.spec, o.folder); err != nil {
		return err
	}
	body := map[string]any{"api": jobDialect, "spec": file.spec}
	if o.dryRun {
		return t.preflight(cmd, c, file, body)
	}
	var raw json.RawMessage
	if o.idempotency == "" {
		o.idempotency = t.NewKey()
	}
	err = t.createOnce(cmd.Context(), c.WithIdempotencyKey(o.idempotency), jobKind().path, body, &raw)
	if err != nil {
		return t.explainRefusal(cmd.Context(), c, file, err)
	}
	if !o.follow {
		return t.print(jobKind().columns, raw)
	}
	if err := t.changed(jobKind(), raw); err != nil {
		return err
	}
	job, ok := jobKind().candidate(raw)
	if !ok {
		return errors.New("the server returned a job without an id")
	}
	if o.demo {
		return t.followDemo(cmd, c, job.id, job.name)
	}
	return t.followJob(cmd, c, job.id)
}

// severalDocuments reports whether a file in YAML has more than one document.
func severalDocuments(raw []byte) bool {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	for range 2 {
		var document any
		if dec.Decode(&document) != nil {
			return false
		}
	}
	return true
}

// completeSpec adds to a spec the lock of its recipe, and the package of a folder unless its name is empty. The folder is packed
// before the first request.
func (t *tool) completeSpec(cmd *cobra.Command, c *client.Client, spec map[string]any, folder string) error {
	if folder == "" {
		return t.lockRecipe(cmd.Context(), c, spec)
	}
	packed, err := t.packFolder(cmd.Context(), folder)
	if err != nil {
		return err
	}
	defer packed.close()
	if err := t.lockRecipe(cmd.Context(), c, spec); err != nil {
		return err
	}
	return t.sendPackage(cmd.Context(), c, spec, packed)
}

// createPatience is how long a creation is tried again if its response is lost.
const createPatience = 30 * time.Second

// createOnce creates an object with a client that has an idempotency key. If the response is lost, for example because the
// server restarts, it sends the request again, which creates no second object.
func (t *tool) createOnce(ctx context.Context, c *client.Client, path string, body, out any) error {
	patient, cancel := context.WithTimeout(ctx, createPatience)
	defer cancel()
	var last error
	err := t.Watcher(c).Retry(patient, func() error {
		err := c.Post(patient, path, body, out)
		if err != nil && patient.Err() == nil {
			last = err
		}
		return err
	})
	if err != nil && patient.Err() != nil && ctx.Err() == nil && last != nil {
		return last
	}
	return err
}

// jobDialect is the dialect of the specs of jobs.
const jobDialect = "service/v1"

// jobFile is a file with a job, and the spec that it describes with the changes of the flags.
type jobFile struct {
	name string
	raw  []byte
	spec map[string]any
	// set are the paths of the members that flags have set.
	set []string
}

// readJob reads a job file.
func (t *tool) readJob(o submitOptions) (jobFile, error) {
	raw, document, err := t.readDocument(o.file)
	if err != nil {
		return jobFile{}, err
	}
	spec := document
	if inner, ok := document["spec"].(map[string]any); ok {
		spec = inner
	}
	if _, named := spec["name"]; !named && o.file != "-" {
		spec["name"] = strings.TrimSuffix(filepath.Base(o.file), filepath.Ext(o.file))
	}
	return t.changeSpec(o, jobFile{name: o.file, raw: raw, spec: spec})
}

// changeSpec sets what the flags change in a job.
func (t *tool) changeSpec(o submitOptions, file jobFile) (jobFile, error) {
	spec := file.spec
	if o.name != "" {
		spec["name"] = o.name
	}
	chosen, err := t.Settings()
	if err != nil {
		return file, err
	}
	if _, set := spec["project"]; chosen.Project != "" && (!set || t.Flags.Project != "") {
		spec["project"] = chosen.Project
	}
	sets := slices.Clone(o.sets)
	for _, text := range o.hparams {
		if _, _, ok := strings.Cut(text, "="); !ok || strings.HasPrefix(text, "=") {
			return file, session.Usage("--hparam %q must be key=value", text)
		}
		sets = append(sets, "hparams."+text)
	}
	changes, err := assignments("set", sets)
	if err != nil {
		return file, err
	}
	for _, path := range sortedKeys(changes) {
		if err := jobfile.Set(spec, path, changes[path]); err != nil {
			return file, session.Usage("--set %s: %s", path, err)
		}
	}
	file.set = slices.Sorted(maps.Keys(changes))
	return file, nil
}

// readDocument reads an object from a file in YAML or JSON; - is standard input.
func (t *tool) readDocument(file string) (raw []byte, document map[string]any, err error) {
	raw, err = t.readFile(file, maxBody)
	if err != nil {
		return nil, nil, err
	}
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, nil, session.Usage("%s is neither YAML nor JSON: %s", file, err)
	}
	if document == nil {
		return nil, nil, session.Usage("%s is empty", file)
	}
	if severalDocuments(raw) {
		return nil, nil, session.Usage("%s has several documents, with --- between them; write one to a file", file)
	}
	return raw, document, nil
}

// followJob prints the log of a job until it has ended, and waits for its last state.
func (t *tool) followJob(cmd *cobra.Command, c *client.Client, id string) error {
	r, err := t.newLogReader(cmd.Context(), id, logOptions{tail: -1})
	if err != nil {
		return err
	}
	if err := r.follow(cmd.Context()); err != nil {
		t.Say("the job continues; signalbox logs %s --follow follows it again", id)
		return err
	}
	last, reached, err := t.await(cmd, c, id, "")
	if err != nil {
		return err
	}
	if err := t.changed(jobKind(), last); err != nil {
		return err
	}
	if !reached {
		return ended(id, last, wanted(""))
	}
	return nil
}
