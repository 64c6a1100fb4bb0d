package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func tokenKind() kind {
	return kind{one: "token", many: "tokens", prefix: "tok_", name: "name", columns: []output.Column{
		{Name: "id"},
		{Name: "name"},
		{Name: "prefix"},
		{Name: "created", Path: "created_at", As: output.Time},
		{Name: "revoked", Path: "revoked_at", As: output.Time},
	}}
}

func (t *tool) tokens() *cobra.Command {
	k := deploymentKind()
	return noun("tokens", "", "Tokens with which programs call a deployment", "signalbox deployments tokens create my-bot laptop", []string{"token"},
		t.part(k, "ls", "tokens", tokenKind(), "List the tokens of a deployment", "signalbox deployments tokens ls my-bot"),
		t.createToken(), t.revokeToken())
}

func (t *tool) createToken() *cobra.Command {
	k := deploymentKind()
	return &cobra.Command{
		Use: "create DEPLOYMENT NAME", Short: "Create a token and print it, once", Args: arguments(2, 2),
		Long: `Create a token for one deployment. It is printed to standard output and is never shown again; it does not expire, and "tokens revoke" ends it
at once.`,
		Example: "signalbox deployments tokens create my-bot laptop > token.txt", ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.Post(cmd.Context(), k.at(id, "tokens"), map[string]any{"name": args[1]}, &raw); err != nil {
				return err
			}
			t.Say("call it with: curl %s/inference/%s/v1/chat/completions -H \"Authorization: Bearer TOKEN\" -H 'Content-Type: application/json' "+
				`-d '{"model": "default", "messages": [{"role": "user", "content": "hello"}]}'`, c.Base(), id)
			return t.printSecret(raw, "token", fmt.Sprintf("the token %q of %s, shown only once:", args[1], args[0]))
		},
	}
}

// printSecret prints the secret of a new object: alone, so that it can be piped, or with another format the whole object.
// What is printed before it, on standard error.
func (t *tool) printSecret(raw json.RawMessage, member, what string) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if !p.ForPeople() {
		return p.Object(nil, raw)
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		return fmt.Errorf("decode the response: %w", err)
	}
	text, ok := members[member].(string)
	if !ok {
		return fmt.Errorf("the server did not return the %s", member)
	}
	t.Say("%s", what)
	_, err = fmt.Fprintln(t.Out, text)
	return err
}

func (t *tool) revokeToken() *cobra.Command {
	k := deploymentKind()
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke DEPLOYMENT TOKEN", Short: "End a token at once, by its name or id", Args: arguments(2, 2),
		Example: "signalbox deployments tokens revoke my-bot laptop -y", ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			path := k.at(id, "tokens")
			token, err := t.liveToken(cmd, c, path, args[1])
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Revoke the token %s of %s? Its callers get 401 at once.", args[1], args[0]); err != nil {
				return err
			}
			if err := c.Do(cmd.Context(), http.MethodDelete, path+"/"+url.PathEscape(token), nil, nil); err != nil {
				return err
			}
			t.Say("revoked the token %s", args[1])
			return nil
		},
	}
	addYes(cmd, &yes)
	return cmd
}

// liveToken returns the id of a token that is not revoked, which the user calls by its id or its name.
func (t *tool) liveToken(cmd *cobra.Command, c *client.Client, path, called string) (string, error) {
	if isID(tokenKind().prefix, called) {
		return called, nil
	}
	var found []string
	_, _, err := c.Each(cmd.Context(), path, nil, everything, func(row json.RawMessage) error {
		var token struct {
			ID, Name  string
			RevokedAt *string `json:"revoked_at"`
		}
		if err := json.Unmarshal(row, &token); err != nil {
			return fmt.Errorf("decode a token: %w", err)
		}
		if token.RevokedAt == nil && token.Name == called {
			found = append(found, token.ID)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 0:
		return "", &NotFoundError{fmt.Sprintf("no token in use is called %q; signalbox deployments tokens ls lists them", called)}
	case 1:
		return found[0], nil
	}
	return "", session.Usage("%d tokens are called %q; use an id", len(found), called)
}

func (t *tool) traffic() *cobra.Command {
	k := deploymentKind()
	calls := kind{one: "call", many: "calls", columns: []output.Column{
		{Name: "time", Path: "at", As: output.Time},
		{Name: "status", Right: true},
		{Name: "outcome"},
		{Name: "token", Path: "token_name"},
		{Name: "revision", Path: "revision_number", Right: true},
		{Name: "ms", Path: "duration_ms", Right: true, As: output.Number},
		{Name: "ttft", Path: "ttft_ms", Right: true, As: output.Number, Wide: true},
		{Name: "in", Path: "prompt_tokens", Right: true},
		{Name: "out", Path: "completion_tokens", Right: true},
		{Name: "path", Wide: true},
		{Name: "request", Path: "request_id", Wide: true},
	}}
	var limit int
	flags := &filterFlags{}
	cmd := &cobra.Command{
		Use: "traffic DEPLOYMENT", Short: "List the calls of a deployment, newest first", Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		Example: "signalbox deployments traffic my-bot --since 1h\nsignalbox deployments traffic my-bot --outcome engine_error -o wide",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if err := flags.query(query, t.now()); err != nil {
				return err
			}
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			return t.printList(cmd, c, calls, k.at(id, "traffic"), query, limit)
		},
	}
	*flags = *addFilters(cmd.Flags(), cmd, []filter{
		{flag: "since", param: "from", usage: "only calls from this time on, such as 1h", when: true},
		{flag: "until", param: "to", usage: "only calls up to this time", when: true},
		{flag: "token", param: "token", usage: "only calls with the token of this id"},
		{flag: "status", param: "status", usage: "only responses with this status"},
		{flag: "outcome", param: "outcome", usage: "only calls with this outcome, such as engine_error, client_error or upstream_truncated"},
		{flag: "revision", param: "revision", usage: "only calls of this revision"},
		{flag: "min-ms", param: "min_latency_ms", usage: "only calls that took at least this long"},
	})
	addLimit(cmd, &limit)
	return cmd
}
