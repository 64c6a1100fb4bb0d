package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func shareKind() kind {
	return kind{one: "share", many: "shares", lister: "share ls", path: "/api/shares", prefix: "shr_", name: "id", columns: []output.Column{
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
			if err := c.Do(cmd.Context(), http.MethodDelete, k.at(args[0]), nil, nil); err != nil {
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
			if cmd.Flags().Changed("days") && days <= 0 {
				return session.Usage("--days must be above 0; without it, the link does not expire")
			}
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
			until := "you revoke it"
			if days > 0 {
				at := t.Clock.Now().Add(time.Duration(days * float64(24*time.Hour)))
				body["expires_at"] = at.Format(time.RFC3339)
				until = at.In(t.Zone).Format("2006-01-02 15:04")
			}
			var raw json.RawMessage
			if err := c.Post(cmd.Context(), shareKind().path, body, &raw); err != nil {
				return err
			}
			return t.printSharePage(c, raw, until)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&days, "days", 0, "days after which the link expires; without it, the link does not expire")
	f.StringVar(&title, "title", "", "title of the page")
	f.StringSliceVar(&fields, "show", nil, "what the page shows: metrics, config, samples; metrics and config by default")
	f.BoolVar(&pinned, "pinned", false, "show the run as it is now, for ever")
	return cmd
}

// printSharePage prints the address of the page of a new link in the console, or with another format the whole link.
func (t *tool) printSharePage(c *client.Client, raw json.RawMessage, until string) error {
	var made struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		return fmt.Errorf("decode the link: %w", err)
	}
	page, err := json.Marshal(map[string]string{"page": c.Base() + "/share/" + made.Token})
	if err != nil {
		return fmt.Errorf("print the link: %w", err)
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if !p.ForPeople() {
		return p.Object(nil, raw)
	}
	return t.printSecret(page, "page", "anyone with this address can see it until "+until+"; signalbox share revoke "+made.ID+" ends it:")
}

// runOf returns the id of the run of a job, or the id itself if it is that of a run.
func (t *tool) runOf(cmd *cobra.Command, c *client.Client, id string) (string, error) {
	if !strings.HasPrefix(id, jobKind().prefix) {
		return id, nil
	}
	var job struct {
		RunID string `json:"run_id"`
	}
	err := c.Get(cmd.Context(), jobKind().at(id), nil, &job)
	return job.RunID, err
}
