package command

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func (t *tool) registerModel() *cobra.Command {
	var run, task string
	var wanted wantedArtifact
	cmd := &cobra.Command{
		Use: "register MODEL", Short: "Register an artifact of a run as a new version of a model", Args: arguments(1, 1),
		Long: `Register an artifact of a run as a version of a model. The model is created if it is missing. Without --artifact, it is the last artifact of the
run that an engine can serve: a merged model as GGUF or as a folder, or else a checkpoint. A run that made only an adapter registers the adapter,
which knows the model that the run started from.`,
		Example: "signalbox models register my-model --run my-job\nsignalbox models register my-adapter --run my-job --format peft",
		RunE: func(cmd *cobra.Command, args []string) error {
			if run == "" {
				return session.Usage("--run must name the job or run that made the model")
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			source, err := t.source(cmd.Context(), c, run)
			if err != nil {
				return err
			}
			found, err := t.findArtifact(cmd, c, source, wanted)
			if err != nil {
				return err
			}
			id, err := t.id(cmd.Context(), c, modelKind(), args[0])
			if as[*NotFoundError](err) {
				id, err = t.createNamed(cmd, c, modelKind(), args[0], map[string]any{"task": task})
			}
			if err != nil {
				return err
			}
			body := map[string]any{"source": map[string]string{"run_id": found.RunID, "artifact_id": found.ID}}
			return t.send(cmd, c, http.MethodPost, modelKind().at(id, "versions"), body, t.showObject(modelVersionKind().columns))
		},
	}
	f := cmd.Flags()
	f.StringVar(&run, "run", "", "job or run that made the model")
	f.StringVar(&wanted.id, "artifact", "", "id of the artifact; signalbox artifacts ls lists them")
	f.StringVar(&wanted.kind, "kind", "", "kind of the artifact, such as checkpoint")
	f.StringVar(&wanted.format, "format", "", "format of the artifact: gguf, safetensors or peft")
	f.StringVar(&task, "task", "chat", "task of a new model: chat, completion or embedding")
	must(cmd.RegisterFlagCompletionFunc("run", t.completeFlag(jobKind())))
	return cmd
}

// artifact is what a registration looks at.
type artifactRow struct {
	ID     string `json:"id"`
	RunID  string `json:"run_id"`
	Kind   string `json:"kind"`
	Format string `json:"format"`
}

// wantedArtifact selects an artifact. Its members may be empty.
type wantedArtifact struct{ id, kind, format string }

// registered are the artifacts that are registered without a choice of the user, the best ones first.
func registered() []artifactRow {
	return []artifactRow{
		{Kind: "merged_model", Format: "gguf"},
		{Kind: "merged_model", Format: "safetensors"},
		{Kind: "hf_export", Format: "safetensors"},
		{Kind: "checkpoint", Format: "gguf"},
		{Kind: "hf_export", Format: "peft"},
		{Kind: "checkpoint", Format: "safetensors"},
	}
}

// rank returns how well an artifact fits, from 0 for the best. It is negative if the artifact does not fit.
func (w wantedArtifact) rank(a artifactRow) int {
	best := registered()
	i := slices.IndexFunc(best, func(b artifactRow) bool { return b.Kind == a.Kind && b.Format == a.Format })
	switch {
	case w.id != "" && a.ID != w.id, w.kind != "" && a.Kind != w.kind, w.format != "" && a.Format != w.format:
		return -1
	case i < 0 && w != wantedArtifact{}:
		return len(best) // the server states why it cannot be registered
	}
	return i
}

// findArtifact returns the wanted artifact of a run, or the last of those that fit best.
func (t *tool) findArtifact(cmd *cobra.Command, c *client.Client, run string, wanted wantedArtifact) (artifactRow, error) {
	var best artifactRow
	least := math.MaxInt
	_, _, err := c.Each(cmd.Context(), runPath(run)+"/artifacts", nil, everything, func(raw json.RawMessage) error {
		var a artifactRow
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("decode an artifact: %w", err)
		}
		if i := wanted.rank(a); i >= 0 && i <= least {
			best, least = a, i
		}
		return nil
	})
	if err != nil {
		return best, err
	}
	if best.ID == "" {
		return best, &NotFoundError{"the run has no such artifact; signalbox artifacts ls lists them, and --artifact names one"}
	}
	return best, nil
}

// createNamed creates an object of a kind with a name, in the project of the command, and returns its id.
func (t *tool) createNamed(cmd *cobra.Command, c *client.Client, k kind, called string, more map[string]any) (string, error) {
	body, err := t.inProject(called)
	if err != nil {
		return "", err
	}
	maps.Copy(body, more)
	var made struct {
		ID string `json:"id"`
	}
	if err := c.Post(cmd.Context(), k.path, body, &made); err != nil {
		return "", err
	}
	t.Say("created the %s %s (%s)", k.one, called, made.ID)
	return made.ID, nil
}

// modelVersion returns the id of a model and the number of a version, which the user calls MODEL@VERSION, MODEL@ALIAS, or
// MODEL for its newest one.
func (t *tool) modelVersion(ctx context.Context, c *client.Client, called string) (id string, version int, err error) {
	k := modelKind()
	name, selected, chosen := strings.Cut(called, "@")
	if chosen && selected == "" {
		return "", 0, session.Usage("the version in %q is empty; an unset variable?", called)
	}
	if id, err = t.id(ctx, c, k, name); err != nil {
		return "", 0, err
	}
	if number, err := strconv.Atoi(selected); err == nil {
		return id, number, nil
	}
	var m struct {
		Latest  *int           `json:"latest_version"`
		Aliases map[string]int `json:"aliases"`
	}
	if err := c.Get(ctx, k.at(id), nil, &m); err != nil {
		return "", 0, err
	}
	if selected != "" {
		number, ok := m.Aliases[selected]
		if !ok {
			return "", 0, &NotFoundError{fmt.Sprintf("the model %s has neither a version nor an alias %q", name, selected)}
		}
		return id, number, nil
	}
	if m.Latest == nil {
		return "", 0, &NotFoundError{fmt.Sprintf("the model %s has no version; signalbox models import or register makes one", name)}
	}
	return id, *m.Latest, nil
}

// modelVersionPath returns a client, and the path of a version of a model.
func (t *tool) modelVersionPath(cmd *cobra.Command, called string) (*client.Client, string, error) {
	c, err := t.Client()
	if err != nil {
		return nil, "", err
	}
	id, version, err := t.modelVersion(cmd.Context(), c, called)
	return c, modelKind().at(id, "versions", strconv.Itoa(version)), err
}

func (t *tool) card() *cobra.Command {
	return &cobra.Command{
		Use: "card MODEL[@VERSION]", Short: "Print the card of a model version", Example: "signalbox models card my-model@2", Args: arguments(1, 1),
		ValidArgsFunction: t.complete(modelKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, path, err := t.modelVersionPath(cmd, args[0])
			if err != nil {
				return err
			}
			return t.printObject(cmd, c, []output.Column{{Name: "author"}, {Name: "created", Path: "created_at", As: output.Time}, {Name: "content"}}, path+"/card")
		},
	}
}

// versionAct returns a command that changes a version of a model.
func (t *tool) versionAct(verb, short, example string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " MODEL@VERSION", Short: short, Example: example, Args: arguments(1, 1), ValidArgsFunction: t.complete(modelKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, version, ok := strings.Cut(args[0], "@"); !ok || version == "" {
				return session.Usage("%q names no version; write MODEL@VERSION", args[0])
			}
			c, path, err := t.modelVersionPath(cmd, args[0])
			if err != nil {
				return err
			}
			return t.send(cmd, c, http.MethodPost, path+"/"+verb, map[string]any{}, t.showObject(modelVersionKind().columns))
		},
	}
}

func (t *tool) alias() *cobra.Command {
	k := modelKind()
	var remove bool
	cmd := &cobra.Command{
		Use: "alias MODEL ALIAS [VERSION]", Short: "Give a version a name such as champion, or take it away", Args: arguments(2, 3),
		Example: "signalbox models alias my-model champion 3\nsignalbox models alias my-model champion --remove", ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			path := k.at(id, "aliases", args[1])
			if remove {
				if err := c.Do(cmd.Context(), http.MethodDelete, path, nil, nil); err != nil {
					return err
				}
				t.Say("removed the alias %s", args[1])
				return nil
			}
			if len(args) < 3 {
				return session.Usage("name the version, or --remove; usage: %s", cmd.UseLine())
			}
			version, err := strconv.Atoi(args[2])
			if err != nil {
				return session.Usage("%q is not the number of a version", args[2])
			}
			return t.send(cmd, c, http.MethodPut, path, map[string]any{"version": version}, t.showObject(k.columns))
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take the alias away")
	return cmd
}
