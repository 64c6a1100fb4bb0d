package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

type submitOptions struct {
	file        string
	name        string
	hparams     []string
	dryRun      bool
	follow      bool
	idempotency string
}

func (t *tool) submit() *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use: "submit", Short: "Submit the job of a file", Args: noArguments,
		Long: `Submit the job that a file in YAML or JSON describes: the members of its spec ("signalbox explain jobspec"), or a whole request with api and
spec. The newest version of the recipe and its lock are used if the file has none. --dry-run runs all checks and creates no job. With
--follow, the log is printed until the job has ended, and the exit status is 9 if it has not succeeded.`,
		Example: `signalbox jobs submit --file job.yaml --follow
signalbox jobs submit --file job.yaml --hparam optim.lr=0.001 --dry-run`,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runSubmit(cmd, o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the job; - reads standard input")
	f.StringVar(&o.name, "name", "", "name of the job, in place of the one in the file")
	f.StringArrayVar(&o.hparams, "hparam", nil, "hyperparameter: key=value; can be repeated")
	f.BoolVar(&o.dryRun, "dry-run", false, "run all checks and create no job")
	f.BoolVar(&o.follow, "follow", false, "print the log until the job has ended")
	f.StringVar(&o.idempotency, "idempotency-key", "", "a repeat with the same key creates no second job")
	must(cmd.MarkFlagFilename("file", "yaml", "yml", "json"))
	return cmd
}

func (t *tool) runSubmit(cmd *cobra.Command, o submitOptions) error {
	if o.file == "" {
		return session.Usage("--file must name a file with a job, or - for standard input")
	}
	c, err := t.Client()
	if err != nil {
		return err
	}
	spec, err := t.readSpec(o)
	if err != nil {
		return err
	}
	if err := t.lockRecipe(cmd, c, spec); err != nil {
		return err
	}
	body := map[string]any{"api": "service/v1", "spec": spec}
	if o.dryRun {
		return t.preflight(cmd, c, body)
	}
	var raw json.RawMessage
	if o.idempotency != "" {
		c = c.WithIdempotencyKey(o.idempotency)
	}
	if err := c.Post(cmd.Context(), jobKind().path, body, &raw); err != nil {
		return err
	}
	if !o.follow {
		return t.print(jobKind().columns, raw)
	}
	if err := t.changed(jobKind(), raw); err != nil {
		return err
	}
	return t.followJob(cmd, c, raw)
}

// readSpec returns the spec of a file, with the changes of the flags.
func (t *tool) readSpec(o submitOptions) (map[string]any, error) {
	raw, err := t.readFile(o.file, maxBody)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, session.Usage("%s is neither YAML nor JSON: %s", o.file, err)
	}
	spec := document
	if inner, ok := document["spec"].(map[string]any); ok {
		spec = inner
	}
	if spec == nil {
		return nil, session.Usage("%s is empty", o.file)
	}
	if o.name != "" {
		spec["name"] = o.name
	}
	if _, named := spec["name"]; !named && o.file != "-" {
		spec["name"] = strings.TrimSuffix(filepath.Base(o.file), filepath.Ext(o.file))
	}
	chosen, err := t.Settings()
	if err != nil {
		return nil, err
	}
	if _, set := spec["project"]; chosen.Project != "" && (!set || t.Flags.Project != "") {
		spec["project"] = chosen.Project
	}
	changes, err := assignments("hparam", o.hparams)
	if err != nil {
		return nil, err
	}
	hparams, _ := spec["hparams"].(map[string]any)
	if hparams == nil {
		hparams = map[string]any{}
	}
	maps.Copy(hparams, changes)
	if len(hparams) > 0 {
		spec["hparams"] = hparams
	}
	return spec, nil
}

// lockRecipe adds to a spec the newest version and the lock of its recipe, which can also be the recipe's name alone.
func (t *tool) lockRecipe(cmd *cobra.Command, c *client.Client, spec map[string]any) error {
	recipe, ok := spec["recipe"].(map[string]any)
	if name, isText := spec["recipe"].(string); isText {
		recipe, ok = map[string]any{"name": name}, true
	}
	name, named := recipe["name"].(string)
	if !ok || !named {
		return session.Usage("the job has no recipe; add recipe: NAME, of those in signalbox recipes ls")
	}
	namespace, short, ok := strings.Cut(name, "/")
	if !ok {
		return session.Usage("%q is not a recipe; write its namespace too, such as custom/custom", name)
	}
	path := "/api/recipes/" + url.PathEscape(namespace) + "/" + url.PathEscape(short)
	if _, set := recipe["version"]; !set {
		var newest struct {
			Version string `json:"version"`
		}
		if err := c.Get(cmd.Context(), path, nil, &newest); err != nil {
			return err
		}
		recipe["version"] = newest.Version
	}
	if _, set := recipe["lock"]; !set {
		var lock json.RawMessage
		if err := c.Get(cmd.Context(), path+"/versions/"+url.PathEscape(fmt.Sprint(recipe["version"]))+"/lock", nil, &lock); err != nil {
			return err
		}
		recipe["lock"] = lock
	}
	spec["recipe"] = recipe
	return nil
}

// preflight runs the checks of a submission and prints their results.
func (t *tool) preflight(cmd *cobra.Command, c *client.Client, body map[string]any) error {
	var raw json.RawMessage
	if err := c.Post(cmd.Context(), "/api/submit/preflight", body, &raw); err != nil {
		return err
	}
	var report struct {
		OK    bool              `json:"ok"`
		Gates []json.RawMessage `json:"gates"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return fmt.Errorf("decode the result of the checks: %w", err)
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if !p.Format.IsTable() || p.Filter != nil {
		err = p.Object(nil, raw)
	} else {
		p.Width = 0
		err = p.Rows([]output.Column{{Name: "gate"}, {Name: "status"}, {Name: "detail"}}, report.Gates)
	}
	if err == nil && !report.OK {
		return session.Usage("the job would be refused")
	}
	return err
}

// followJob prints the log of a job until it has ended, and waits for its last state.
func (t *tool) followJob(cmd *cobra.Command, c *client.Client, raw json.RawMessage) error {
	job, ok := jobKind().candidate(raw)
	if !ok {
		return errors.New("the server returned a job without an id")
	}
	r, err := t.newLogReader(cmd.Context(), job.id, logOptions{tail: -1})
	if err != nil {
		return err
	}
	if err := r.follow(cmd.Context()); err != nil {
		t.Say("the job continues; signalbox logs %s --follow follows it again", job.id)
		return err
	}
	last, reached, err := t.await(cmd, c, job.id, "")
	if err != nil {
		return err
	}
	if err := t.changed(jobKind(), last); err != nil {
		return err
	}
	if !reached {
		return &EndedError{"the job did not succeed"}
	}
	return nil
}
