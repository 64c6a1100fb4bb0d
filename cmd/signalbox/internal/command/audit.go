package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// patience limits how long a verification may take, because the server reads every row of the audit.
const patience = 5 * time.Minute

// ErrAuditBroken reports that the audit was changed after it was written.
var ErrAuditBroken = errors.New("the audit is broken")

func auditKind() kind {
	return kind{
		one: "entry", many: "entries", path: "/api/admin/audit",
		columns: []output.Column{
			{Name: "at", As: output.Time},
			{Name: "actor", Path: "actor_name"},
			{Name: "action"},
			{Name: "target", Path: "target_id"},
			{Name: "kind", Path: "target_kind", Wide: true},
			{Name: "service", Wide: true},
			{Name: "address", Path: "client_address", Wide: true},
			{Name: "id", Wide: true},
			{Name: "request", Path: "request_id", Wide: true},
		},
	}
}

func (t *tool) audit() *cobra.Command {
	verify := &cobra.Command{
		Use: "verify", Short: "Verify that no row of the audit was changed", Args: noArguments,
		Long: `Verify the audit of every service against its signed heads, and print each break. The exit status is 1 if there is one.
An admin can run it, for example every night with a token in the variable SERVICE_TOKEN.`,
		Example: "signalbox audit verify",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			return t.verifyAudit(cmd.Context(), c)
		},
	}
	ls := t.list(auditKind(), "List who changed what, newest first", "signalbox audit ls --since 1d\nsignalbox audit ls --actor ada --action job.stop",
		filter{flag: "actor", param: "actor", usage: "only changes by this user"},
		filter{flag: "action", param: "action", usage: "only this action"},
		filter{flag: "target-kind", param: "target_kind", usage: "only changes of this kind of object"},
		filter{flag: "target", param: "target_id", usage: "only changes of the object with this id"},
		filter{flag: "since", param: "since", usage: "only changes from this time on", when: true},
		filter{flag: "until", param: "until", usage: "only changes up to this time", when: true})
	return noun("audit", groupCluster, "The audit log (admins)", "signalbox audit ls --since 1d\nsignalbox audit verify", nil, ls, verify)
}

// auditReport is the response of POST /api/admin/audit/verify.
type auditReport struct {
	OK     bool `json:"ok"`
	Chains []struct {
		Service     string  `json:"service"`
		OK          bool    `json:"ok"`
		Rows        int64   `json:"rows"`
		Checkpoints int64   `json:"checkpoints"`
		Fault       *string `json:"fault"`
	} `json:"chains"`
}

// verifyAudit has the server verify the audit and prints the result. It returns ErrAuditBroken if the audit is broken.
func (t *tool) verifyAudit(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var raw json.RawMessage
	if err := c.Post(ctx, "/api/admin/audit/verify", map[string]any{}, &raw); err != nil {
		return fmt.Errorf("verify the audit: %w", err)
	}
	var r auditReport
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("verify the audit: decode the response: %w", err)
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if p.Format.IsTable() {
		t.printChains(r)
	} else if err := p.Object(nil, raw); err != nil {
		return err
	}
	switch {
	case !r.OK:
		return ErrAuditBroken
	case len(r.Chains) == 0:
		return errors.New("verify the audit: the response names no service")
	}
	return nil
}

func (t *tool) printChains(r auditReport) {
	for _, c := range r.Chains {
		if c.OK {
			fmt.Fprintf(t.Out, "%-10s ok: %d rows, %d signed heads\n", c.Service, c.Rows, c.Checkpoints)
			continue
		}
		why := "no reason given"
		if c.Fault != nil {
			why = *c.Fault
		}
		fmt.Fprintf(t.Out, "%-10s BROKEN: %s\n", c.Service, strings.ReplaceAll(why, "; ", "\n             "))
	}
}
