package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/ownjob"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

type initOptions struct {
	recipe string
	force  bool
}

// defaultJobFile is the file that init writes.
const defaultJobFile = "job.yaml"

// initJob returns the command that writes a job file.
func (t *tool) initJob() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use: "init [FILE]", GroupID: groupWork, Short: "Write a job file for a recipe, to submit as it is or to change", Args: arguments(0, 1),
		Long: `Write a job file for a recipe: the newest dataset and model that you can read for the inputs that the recipe requires, and all parameters
with their defaults, as comments. FILE is job.yaml unless another name is given; - is standard output. A file that exists is not replaced without --force.`,
		Example: "signalbox init --recipe demo/chat-tiny\nsignalbox init --recipe custom/custom train.yaml\nsignalbox submit job.yaml --follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.recipe == "" {
				return session.Usage("--recipe must name a recipe, of those in signalbox recipes ls")
			}
			file := defaultJobFile
			if len(args) > 0 {
				file = args[0]
			}
			return t.runInit(cmd, o, file)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.recipe, "recipe", "", "recipe of the job, such as demo/chat-tiny")
	f.BoolVar(&o.force, "force", false, "replace a file that exists")
	must(cmd.RegisterFlagCompletionFunc("recipe", t.complete(recipeKind())))
	return cmd
}

func (t *tool) runInit(cmd *cobra.Command, o initOptions, file string) error {
	c, err := t.Client()
	if err != nil {
		return err
	}
	raw, err := t.recipe(cmd, o.recipe)
	if err != nil {
		return err
	}
	var r recipeParts
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("decode the recipe: %w", err)
	}
	if !strings.Contains(o.recipe, "@") {
		r.Version = "" // the job uses the newest one
	} else if r.State != "active" {
		t.Say("version %s of %s is %s; signalbox recipes get %s shows the newest one", r.Version, r.Name, r.State, r.Name)
	}
	chosen, err := t.Settings()
	if err != nil {
		return err
	}
	found, err := t.findInputs(cmd.Context(), c, r.Inputs, chosen.Project)
	if err != nil {
		return err
	}
	pool, err := t.choosePool(cmd.Context(), c, 0)
	if err != nil {
		t.Say("%s", err)
		pool = "default"
	}
	text, err := jobTemplate(r, file, pool, found)
	if err != nil {
		return err
	}
	if file == "-" {
		_, err := io.WriteString(t.Out, text)
		return err
	}
	if err := writeNew(file, text, o.force); err != nil {
		return err
	}
	for _, in := range r.Inputs {
		switch ref := found[in.Name]; {
		case ref != "":
			t.Say("%s: the input %s is %s, the newest %s in the format %s", file, in.Name, ref, in.Kind, in.Format)
		case in.Required:
			t.Say("%s: there is no %s for the input %s yet; add one and write its reference into the file", file, in.Kind, in.Name)
		}
	}
	for _, name := range r.ParamsSchema.Required {
		if len(r.ParamsSchema.Properties[name].Default) == 0 {
			t.Say("%s: the parameter %s has no default; write its value into the file", file, output.Printable(name))
		}
	}
	t.Say("wrote %s; submit it: signalbox submit %s --follow", file, withFolder(r, file))
	return nil
}

// writeNew writes a file that does not exist, or any file if force is set.
func writeNew(file, text string, force bool) error {
	const readable = 0o644
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !force {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(file, flags, readable)
	if errors.Is(err, os.ErrExist) {
		return session.Usage("%s exists; name another file, or replace it with --force", file)
	}
	if err != nil {
		return session.Usage("%s", err)
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// jobTemplate returns a job file in YAML for a recipe. The file is the name under which it is submitted; - stands for any. The
// references in found fill the inputs.
func jobTemplate(r recipeParts, file, pool string, found map[string]string) (string, error) {
	_, short, _ := strings.Cut(r.Name, "/")
	if file == "-" {
		file = defaultJobFile
	}
	file = note(file)
	var b strings.Builder
	fmt.Fprintf(&b, `# A job of %[1]s.
#   submit it:               signalbox submit %[3]s --follow
#   check it only:           signalbox preflight %[3]s
#   all members of the spec: signalbox explain jobspec
name: %[4]s
recipe: %[5]s   # signalbox recipes lock %[2]s writes its version into this file
`, note(r.Name), file, withFolder(r, file), scalar(short+"-1"), recipeValue(r))
	if r.Name == ownjob.Recipe {
		b.WriteString("source:\n  command: [\"python\", \"train.py\"]\n")
	}
	writeInputs(&b, r.Inputs, found)
	writeParameters(&b, r)
	fmt.Fprintf(&b, `resources:
  pools:
    - pool: %s   # of those in signalbox cluster pools
      # nodes: 1
      # gpus_per_node: 1
# env: {NAME: value}
# limits: {running_s: 86400}
# checkpoint: {keep_last: 2}   # all checkpoints are kept without it
# priority: 50
`, scalar(pool))
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(b.String()), &parsed); err != nil {
		return "", fmt.Errorf("the recipe %s cannot be written as a job file: %w", r.Name, err)
	}
	return b.String(), nil
}

// recipeValue returns the recipe of a job file, with its version if one was chosen.
func recipeValue(r recipeParts) string {
	if r.Version == "" {
		return scalar(r.Name)
	}
	return scalar(r.Name + "@" + r.Version)
}

// note returns a text as it is written into a comment: in one line, without what controls a terminal.
func note(text string) string {
	return output.Printable(strings.Join(strings.Fields(text), " "))
}

// scalar returns a text as a value, or as the name of a member, in one line of YAML.
func scalar(text string) string {
	raw, err := yaml.Marshal(text)
	if one := strings.TrimSuffix(string(raw), "\n"); err == nil && !strings.Contains(one, "\n") {
		return one
	}
	return strconv.Quote(text)
}

// withFolder returns the arguments with which a job file of a recipe is submitted. The user's own command runs in the folder of
// the user.
func withFolder(r recipeParts, file string) string {
	if r.Name == ownjob.Recipe {
		return file + " --folder ."
	}
	return file
}

// writeInputs writes the bindings of a job file. Optional inputs are comments.
func writeInputs(b *strings.Builder, inputs []recipeInput, found map[string]string) {
	var datasets, models []string
	active := false
	for _, in := range inputs {
		mark, ref := "# ", "PROJECT/NAME@VERSION"
		if in.Required {
			mark, active = "", true
		}
		if in.Kind == "model" {
			ref = "mdl/" + ref
			if found[in.Name] != "" {
				ref = scalar(found[in.Name])
			}
			models = append(models, fmt.Sprintf("  %smodel: %s   # %s\n", mark, ref, note(in.Description)))
			continue
		}
		ref = "ds/" + ref
		if found[in.Name] != "" {
			ref = scalar(found[in.Name])
		}
		datasets = append(datasets, fmt.Sprintf("    %s%s: %s   # %s\n", mark, scalar(in.Name), ref, note(in.Description)))
	}
	if len(datasets)+len(models) == 0 {
		return
	}
	lines := slices.Concat([]string{"bindings:\n"}, models)
	if len(datasets) > 0 {
		lines = slices.Concat([]string{"bindings:\n", "  datasets:\n"}, datasets, models)
	}
	for _, line := range lines {
		if !active && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			line = "# " + line
		}
		b.WriteString(line)
	}
}

// writeParameters writes the hyperparameters of a job file with their defaults. Those that have a default are comments.
func writeParameters(b *strings.Builder, r recipeParts) {
	parameters := r.ParamsSchema.Properties
	if len(parameters) == 0 {
		return
	}
	b.WriteString("hparams:\n")
	for _, name := range sortedKeys(parameters) {
		p := parameters[name]
		mark := "# "
		if slices.Contains(r.ParamsSchema.Required, name) {
			mark = ""
		}
		text := p.Description
		if allowed := p.allowed(); allowed != "" {
			text += " (" + allowed + ")"
		}
		fmt.Fprintf(b, "  %s%s: %s", mark, scalar(name), note(string(p.Default)))
		if text != "" {
			fmt.Fprintf(b, "   # %s", note(text))
		}
		b.WriteString("\n")
	}
}
