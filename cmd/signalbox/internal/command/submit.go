package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"time"

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
	folder      string
	listFiles   bool
	idempotency string
}

func (t *tool) submit() *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use: "submit [FILE]", Short: "Submit the job of a file", Args: arguments(0, 1),
		Long: `Submit the job that a file in YAML or JSON describes: the members of its spec ("signalbox explain jobspec"), or a whole request with api and
spec. The newest version of the recipe and its lock are used if the file has none. --dry-run runs all checks and creates no job. With
--follow, the log is printed until the job has ended, and the exit status is 9 if it has not succeeded.

With --folder, the files of a folder are the code of a custom/custom job: they are packed and uploaded, without those that .gitignore and
.signalboxignore of the folder exclude. A file that looks like a secret by its name or content is refused, and nothing is sent. --list-files prints
the files and sends nothing.`,
		Example: `signalbox recipes template demo/chat-tiny > job.yaml
signalbox jobs submit job.yaml --dry-run
signalbox jobs submit job.yaml --hparam optim.lr=0.001 --follow
signalbox jobs submit job.yaml --folder . --follow
signalbox jobs submit --folder . --list-files`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && o.file != "" {
				return session.Usage("the file is named twice: %s and %s", args[0], o.file)
			}
			if len(args) > 0 {
				o.file = args[0]
			}
			return t.runSubmit(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the job; - reads standard input")
	f.StringVar(&o.name, "name", "", "name of the job, in place of the one in the file")
	f.StringArrayVar(&o.hparams, "hparam", nil, "hyperparameter: key=value; can be repeated")
	f.BoolVar(&o.dryRun, "dry-run", false, "run all checks and create no job")
	f.BoolVar(&o.follow, "follow", false, "print the log until the job has ended")
	f.StringVar(&o.folder, "folder", "", "folder with the code of the job, which is packed and uploaded")
	f.BoolVar(&o.listFiles, "list-files", false, "print the files of --folder and send nothing")
	f.StringVar(&o.idempotency, "idempotency-key", "", "a repeat with the same key creates no second job")
	must(cmd.MarkFlagFilename("file", "yaml", "yml", "json"))
	must(cmd.MarkFlagDirname("folder"))
	return cmd
}

func (t *tool) runSubmit(cmd *cobra.Command, o submitOptions) error {
	if o.listFiles && o.folder == "" {
		return session.Usage("--list-files needs --folder")
	}
	if o.listFiles {
		return t.listFolder(cmd, o.folder)
	}
	if o.file == "" {
		return session.Usage("name a file with a job, or - for standard input; signalbox recipes template RECIPE prints one to begin with")
	}
	c, err := t.Client()
	if err != nil {
		return err
	}
	spec, err := t.readSpec(o)
	if err != nil {
		return err
	}
	if err := t.completeSpec(cmd, c, spec, o.folder); err != nil {
		return err
	}
	body := map[string]any{"api": "service/v1", "spec": spec}
	if o.dryRun {
		return t.preflight(cmd, c, body)
	}
	var raw json.RawMessage
	if o.idempotency == "" {
		o.idempotency = t.NewKey()
	}
	err = t.createOnce(cmd.Context(), c.WithIdempotencyKey(o.idempotency), jobKind().path, body, &raw)
	if err != nil {
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

// completeSpec adds to a spec the lock of its recipe, and the package of a folder unless its name is empty. The folder is packed
// before the first request.
func (t *tool) completeSpec(cmd *cobra.Command, c *client.Client, spec map[string]any, folder string) error {
	if folder == "" {
		return t.lockRecipe(cmd, c, spec)
	}
	packed, err := t.packFolder(cmd.Context(), folder)
	if err != nil {
		return err
	}
	defer packed.close()
	if err := t.lockRecipe(cmd, c, spec); err != nil {
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

// readSpec returns the spec of a file, with the changes of the flags.
func (t *tool) readSpec(o submitOptions) (map[string]any, error) {
	document, err := t.readDocument(o.file)
	if err != nil {
		return nil, err
	}
	spec := document
	if inner, ok := document["spec"].(map[string]any); ok {
		spec = inner
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
	if delete(spec, "hparams"); len(hparams) > 0 {
		spec["hparams"] = hparams
	}
	return spec, nil
}

// readDocument reads an object from a file in YAML or JSON; - is standard input.
func (t *tool) readDocument(file string) (map[string]any, error) {
	raw, err := t.readFile(file, maxBody)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, session.Usage("%s is neither YAML nor JSON: %s", file, err)
	}
	if document == nil {
		return nil, session.Usage("%s is empty", file)
	}
	return document, nil
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
	path, err := recipePath(name)
	if err != nil {
		return err
	}
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
	if !p.ForPeople() {
		err = p.Object(nil, raw)
	} else {
		p.Width = 0
		err = p.Rows([]output.Column{{Name: "gate"}, {Name: "status"}, {Name: "detail", As: withoutGate}}, report.Gates)
	}
	if err == nil && !report.OK {
		return session.Usage("the job would be refused")
	}
	return err
}

// withoutGate formats the detail of a gate without its name, which has a column of its own.
func withoutGate(value any, now time.Time) string {
	text := output.Text(value, now)
	if name, rest, ok := strings.Cut(text, ": "); ok && !strings.Contains(name, " ") {
		return rest
	}
	return text
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
		return ended(job.id, last, wanted(""))
	}
	return nil
}
