package command

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func shareKind() kind {
	return kind{one: "share", many: "shares", path: "/api/shares", prefix: "shr_", name: "id", columns: []output.Column{
		{Name: "id"},
		{Name: "kind"},
		{Name: "title"},
		{Name: "runs", Path: "target_ids"},
		{Name: "views", Right: true},
		{Name: "expires", Path: "expires_at", As: output.Time},
		{Name: "revoked", Path: "revoked_at", As: output.Time},
		{Name: "prefix", Wide: true},
	}}
}

func (t *tool) shares() *cobra.Command {
	k := shareKind()
	var yes bool
	revoke := &cobra.Command{
		Use: "revoke SHARE", Short: "End a link at once", Example: "signalbox share revoke shr_01kab3c4d5e6f7g8h9j0kmnpqr -y", Args: arguments(1, 1),
		ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Revoke the link %s?", args[0]); err != nil {
				return err
			}
			if err := c.Do(cmd.Context(), "DELETE", k.path+"/"+url.PathEscape(args[0]), nil, nil); err != nil {
				return err
			}
			t.Say("revoked the link %s", args[0])
			return nil
		},
	}
	addYes(revoke, &yes)
	return noun("share", groupPeople, "Links with which anyone can see a run, without a login", "signalbox share create my-run --days 7", []string{"shares"},
		t.list(k, "List links", "signalbox share ls"), t.createShare(), revoke)
}

func (t *tool) createShare() *cobra.Command {
	var days float64
	var title string
	var fields []string
	var pinned bool
	cmd := &cobra.Command{
		Use: "create JOB|RUN...", Short: "Create a link and print its address, once", Args: arguments(1, maxNames), ValidArgsFunction: t.complete(runKind()),
		Long: `Create a link to a run, or with several runs to a comparison. Anyone who has the address sees what --show selects, until the link expires or is
revoked. The address is never shown again.`,
		Example: "signalbox share create my-run --days 7\nsignalbox share create run-a run-b --title 'two learning rates' --show metrics",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			body := map[string]any{"kind": "job", "pinned": pinned}
			if len(args) > 1 {
				body["kind"] = "comparison"
			}
			var ids []string
			for _, called := range args {
				id, err := t.source(cmd.Context(), c, called)
				if err != nil {
					return err
				}
				if id, err = t.runOf(cmd, c, id); err != nil {
					return err
				}
				ids = append(ids, id)
			}
			body["target_ids"] = ids
			if title != "" {
				body["title"] = title
			}
			if len(fields) > 0 {
				body["fields"] = fields
			}
			if days > 0 {
				body["expires_at"] = t.Clock.Now().Add(time.Duration(days * float64(24*time.Hour))).Format(time.RFC3339)
			}
			var raw json.RawMessage
			if err := c.Post(cmd.Context(), shareKind().path, body, &raw); err != nil {
				return err
			}
			return t.printSecret(raw, "url", "anyone with this address can see the run, until you revoke it")
		},
	}
	f := cmd.Flags()
	f.Float64Var(&days, "days", 0, "days after which the link expires")
	f.StringVar(&title, "title", "", "title of the page")
	f.StringSliceVar(&fields, "show", nil, "what the page shows: metrics, config, samples; all by default")
	f.BoolVar(&pinned, "pinned", false, "show the run as it is now, for ever")
	return cmd
}

// keys formats an object by the names of its members, sorted.
func keys(value any, now time.Time) string {
	members, ok := value.(map[string]any)
	if !ok {
		return output.Text(value, now)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// recipePath returns the path of a recipe.
func recipePath(name string) (string, error) {
	namespace, short, ok := strings.Cut(name, "/")
	if !ok {
		return "", errRecipeName(name)
	}
	return "/api/recipes/" + url.PathEscape(namespace) + "/" + url.PathEscape(short), nil
}

// runOf returns the id of the run of a job, or the id itself if it is that of a run.
func (t *tool) runOf(cmd *cobra.Command, c *client.Client, id string) (string, error) {
	if !strings.HasPrefix(id, jobKind().prefix) {
		return id, nil
	}
	var job struct {
		RunID string `json:"run_id"`
	}
	err := c.Get(cmd.Context(), jobKind().path+"/"+url.PathEscape(id), nil, &job)
	return job.RunID, err
}
