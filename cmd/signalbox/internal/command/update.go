package command

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

// field is a member of an object that a command changes, by a flag with the name of the member, with - in place of _.
type field struct {
	flag, usage string
	// number, list and labels state that the value is a number, a list, or a map; otherwise it is a text.
	number, list, labels bool
}

// update returns the command update of a kind.
func (t *tool) update(k kind, short, example string, fields ...field) *cobra.Command {
	cmd := &cobra.Command{
		Use: "update " + upper(k), Short: short, Example: example, Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := changes(cmd, fields)
			if err != nil {
				return err
			}
			return t.patch(cmd, k, args[0], body)
		},
	}
	for _, f := range fields {
		switch {
		case f.number:
			cmd.Flags().Int64(f.flag, 0, f.usage)
		case f.list, f.labels:
			cmd.Flags().StringSlice(f.flag, nil, f.usage)
		default:
			cmd.Flags().String(f.flag, "", f.usage)
		}
	}
	return cmd
}

// changes returns the members that the command line sets.
func changes(cmd *cobra.Command, fields []field) (map[string]any, error) {
	body := map[string]any{}
	flags := cmd.Flags()
	for _, f := range fields {
		if !flags.Changed(f.flag) {
			continue
		}
		member := strings.ReplaceAll(f.flag, "-", "_")
		var err error
		switch {
		case f.number:
			body[member], err = flags.GetInt64(f.flag)
		case f.list:
			body[member], err = flags.GetStringSlice(f.flag)
		case f.labels:
			var texts []string
			if texts, err = flags.GetStringSlice(f.flag); err == nil {
				body[member], err = labels(f.flag, texts)
			}
		default:
			body[member], err = flags.GetString(f.flag)
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

// labels returns the labels that a flag sets: key=value each.
func labels(flag string, texts []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, session.Usage("--%s %q must be key=value", flag, text)
		}
		out[key] = value
	}
	return out, nil
}

func (t *tool) keys() *cobra.Command {
	k := kind{one: "key", many: "keys", path: "/api/admin/keys", name: "kid", columns: []output.Column{
		{Name: "kid"},
		{Name: "purpose"},
		{Name: "state"},
		{Name: "signs", Path: "signs_at", As: output.Time},
		{Name: "verifies", Path: "verifies_until", As: output.Time},
		{Name: "revoked", Path: "revoked_at", As: output.Time},
	}}
	var revoke, yes bool
	rotate := &cobra.Command{
		Use: "rotate PURPOSE", Short: "Replace the key that signs tokens: access or caller", Args: arguments(1, 1),
		Example: "signalbox admin keys rotate access\nsignalbox admin keys rotate access --revoke -y", ValidArgs: []string{"access", "caller"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if revoke {
				if err := t.Confirm(cmd.Context(), yes, "Revoke the present key? Everyone must log in again."); err != nil {
					return err
				}
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			var rows []json.RawMessage
			if err := c.Post(cmd.Context(), k.path+"/rotate", map[string]any{"purpose": args[0], "revoke": revoke}, &rows); err != nil {
				return err
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			return p.Rows(k.columns, rows)
		},
	}
	rotate.Flags().BoolVar(&revoke, "revoke", false, "end all tokens that the present key has signed")
	addYes(rotate, &yes)
	return noun("keys", "", "Keys that sign tokens", "signalbox admin keys ls", []string{"key"}, t.list(k, "List keys", "signalbox admin keys ls"), rotate)
}

func (t *tool) transfer() *cobra.Command {
	var to string
	var yes bool
	k := userKind()
	cmd := &cobra.Command{
		Use: "transfer USER", Short: "Give all objects of a user to another one", Example: "signalbox admin users transfer ada --to grace -y", Args: arguments(1, 1),
		ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return session.Usage("--to must name the user who gets the objects")
			}
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			heir, err := t.id(cmd.Context(), c, k, to)
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Give everything of %s to %s?", args[0], to); err != nil {
				return err
			}
			var rows []json.RawMessage
			if err := c.Post(cmd.Context(), k.at(id, "transfer"), map[string]any{"to_user_id": heir}, &rows); err != nil {
				return err
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			return t.rows(p, "objects", []output.Column{{Name: "kind"}, {Name: "count", Right: true}}, rows)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "user who gets the objects")
	addYes(cmd, &yes)
	return cmd
}
