package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

func userKind() kind {
	return kind{
		one: "user", many: "users", lister: "admin users ls", path: "/api/admin/users", prefix: "usr_", name: "username", search: "q",
		columns: []output.Column{
			{Name: "username"},
			{Name: "role"},
			{Name: "name", Path: "display_name"},
			{Name: "email"},
			{Name: "login"},
			{Name: "disabled", Path: "disabled_at", As: output.Time},
			{Name: "id", Wide: true},
			{Name: "seen", Path: "last_login_at", Right: true, As: output.Age},
		},
	}
}

func settingKind() kind {
	return kind{one: "setting", many: "settings", lister: "admin settings ls", path: "/api/admin/settings", name: "key", columns: []output.Column{
		{Name: "key"},
		{Name: "value", As: compactJSON},
		{Name: "default", As: compactJSON},
		{Name: "set"},
		{Name: "type", Wide: true},
		{Name: "description", Wide: true},
		{Name: "by", Path: "changed_by", Wide: true},
	}}
}

func (t *tool) admin() *cobra.Command {
	users := userKind()
	return noun("admin", groupCluster, "Users, quotas and settings (admins)", "signalbox admin users ls\nsignalbox admin quotas set ada --gpus 8", nil,
		noun("users", "", "Users", "signalbox admin users create ada", []string{"user"},
			t.list(users, "List users", "signalbox admin users ls --search ada", filter{flag: "search", param: "q", usage: "only users with this text in a name"}),
			t.get(users, "Show a user", "signalbox admin users get ada"),
			t.createUser(), t.updateUser(), t.resetPassword(),
			t.part(users, "owned", "owned", kind{one: "kind", many: "objects", columns: []output.Column{{Name: "kind"}, {Name: "count", Right: true}}},
				"Count what a user owns", "signalbox admin users owned ada"), t.transfer()),
		noun("quotas", "", "GPUs that users and teams can hold at once", "signalbox admin quotas ls", []string{"quota"}, t.listQuotas(), t.setQuota()),
		noun("settings", "", "Settings of the installation", "signalbox admin settings ls", []string{"setting"},
			t.list(settingKind(), "List settings", "signalbox admin settings ls -o wide"), t.setSetting(),
			t.part(settingKind(), "versions", "versions", kind{one: "version", many: "versions", columns: []output.Column{
				{Name: "version", Right: true}, {Name: "value", As: compactJSON}, {Name: "changed", Path: "changed_at", As: output.Time}, {Name: "by", Path: "changed_by"},
			}}, "List the earlier values of a setting", "signalbox admin settings versions installation.announcement")),
		t.keys(), t.maintenance(),
	)
}

func (t *tool) createUser() *cobra.Command {
	var role, email, name string
	cmd := &cobra.Command{
		Use: "create USERNAME", Short: "Create a user and print the temporary password, once", Args: arguments(1, 1),
		Example: "signalbox admin users create ada --role operator --name 'Ada Lovelace'",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			body := map[string]any{"username": args[0], "role": role}
			for member, value := range map[string]string{"email": email, "display_name": name} {
				if value != "" {
					body[member] = value
				}
			}
			var raw json.RawMessage
			if err := c.Post(cmd.Context(), userKind().path, body, &raw); err != nil {
				return err
			}
			return t.printSecret(raw, "password", fmt.Sprintf("the temporary password of %s, shown only once:", args[0]))
		},
	}
	cmd.Flags().StringVar(&role, "role", "operator", "operator or admin")
	cmd.Flags().StringVar(&email, "email", "", "address")
	cmd.Flags().StringVar(&name, "name", "", "name for people")
	return cmd
}

func (t *tool) updateUser() *cobra.Command {
	var role, email, name string
	var disabled, yes bool
	k := userKind()
	cmd := &cobra.Command{
		Use: "update USER", Short: "Change or disable a user", Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		Example: "signalbox admin users update ada --role admin\nsignalbox admin users update ada --disabled -y",
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			for flag, value := range map[string]any{"role": role, "email": email, "disabled": disabled} {
				if cmd.Flags().Changed(flag) {
					body[flag] = value
				}
			}
			if cmd.Flags().Changed("name") {
				body["display_name"] = name
			}
			if disabled {
				if err := t.Confirm(cmd.Context(), yes, "Disable %s? The tokens and sessions of the user end at once.", args[0]); err != nil {
					return err
				}
			}
			return t.patch(cmd, k, args[0], body)
		},
	}
	f := cmd.Flags()
	f.StringVar(&role, "role", "", "operator or admin")
	f.StringVar(&email, "email", "", "address")
	f.StringVar(&name, "name", "", "name for people")
	f.BoolVar(&disabled, "disabled", false, "end all access; --disabled=false gives it back")
	addYes(cmd, &yes)
	return cmd
}

func (t *tool) resetPassword() *cobra.Command {
	var yes bool
	k := userKind()
	cmd := &cobra.Command{
		Use: "reset-password USER", Short: "Set a temporary password and print it, once", Example: "signalbox admin users reset-password ada -y",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Reset the password of %s? The sessions of the user end at once.", args[0]); err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.Post(cmd.Context(), k.at(id, "reset-password"), map[string]any{}, &raw); err != nil {
				return err
			}
			return t.printSecret(raw, "password", fmt.Sprintf("the temporary password of %s, shown only once:", args[0]))
		},
	}
	addYes(cmd, &yes)
	return cmd
}

func quotaColumns() []output.Column {
	return []output.Column{
		{Name: "subject"},
		{Name: "kind", Path: "subject_kind"},
		{Name: "limit", Path: "gpu_limit", Right: true},
		{Name: "held", Path: "gpu_held", Right: true},
		{Name: "queued", Path: "gpu_queued", Right: true},
		{Name: "available", Path: "gpu_available", Right: true},
	}
}

// subjects are the kinds of what has a quota.
func subjects() []string { return []string{"users", "teams"} }

// addOf adds the flag that selects the kind of what has a quota.
func addOf(cmd *cobra.Command, of *string) {
	cmd.Flags().StringVar(of, "of", subjects()[0], strings.Join(subjects(), " or "))
	must(cmd.RegisterFlagCompletionFunc("of", cobra.FixedCompletions(subjects(), cobra.ShellCompDirectiveNoFileComp)))
}

func (t *tool) listQuotas() *cobra.Command {
	var of string
	var limit int
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the quotas of users, or of teams", Args: noArguments,
		Example: "signalbox admin quotas ls\nsignalbox admin quotas ls --of teams",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("of", of, subjects()); err != nil {
				return err
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			return t.printList(cmd, c, kind{one: "quota", many: "quotas", columns: quotaColumns()}, "/api/quota/"+url.PathEscape(of), nil, limit)
		},
	}
	addOf(cmd, &of)
	addLimit(cmd, &limit)
	return cmd
}

func (t *tool) setQuota() *cobra.Command {
	var of string
	var gpus int
	cmd := &cobra.Command{
		Use: "set SUBJECT --gpus N", Short: "Set how many GPUs a user or team can hold at once", Args: arguments(1, 1),
		Example: "signalbox admin quotas set ada --gpus 8\nsignalbox admin quotas set nlp --of teams --gpus 64",
		RunE: func(cmd *cobra.Command, args []string) error {
			if gpus < 0 {
				return session.Usage("--gpus must give the number of GPUs, 0 for none")
			}
			if err := oneOf("of", of, subjects()); err != nil {
				return err
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			var raw json.RawMessage
			path := "/api/quota/" + url.PathEscape(of) + "/" + url.PathEscape(args[0])
			if err := c.Do(cmd.Context(), http.MethodPut, path, map[string]any{"gpu_limit": gpus}, &raw); err != nil {
				return err
			}
			return t.print(quotaColumns(), raw)
		},
	}
	addOf(cmd, &of)
	cmd.Flags().IntVar(&gpus, "gpus", -1, "number of GPUs; required")
	return cmd
}

func (t *tool) quota() *cobra.Command {
	return &cobra.Command{
		Use: "quota", GroupID: groupPeople, Short: "Show how many GPUs you hold and can hold", Example: "signalbox quota", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			return t.printObject(cmd, c, quotaColumns(), "/api/quota")
		},
	}
}

func (t *tool) setSetting() *cobra.Command {
	k := settingKind()
	cmd := &cobra.Command{
		Use: "set KEY [VALUE]", Short: "Change a setting; the value is JSON, or else a text", Args: arguments(1, 2),
		Long: `Change a setting. The value is JSON, or else a text. A secret must not be an argument, which other users of the machine can see: without a
value, it is read from standard input, or from the terminal without being shown.`,
		Example:           "signalbox admin settings set installation.announcement 'Maintenance on Friday'\nsignalbox admin settings set agent.api_key < token.txt",
		ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			path := k.at(args[0])
			var now struct {
				Version int64  `json:"version"`
				Type    string `json:"type"`
			}
			if err := c.Get(cmd.Context(), path, nil, &now); err != nil {
				return err
			}
			value, err := t.settingValue(cmd.Context(), args, strings.EqualFold(now.Type, "secret"))
			if err != nil {
				return err
			}
			return t.send(cmd, c, http.MethodPut, path, map[string]any{"value": value, "version": now.Version}, t.showObject(k.columns))
		},
	}
	return cmd
}

// settingValue returns the value of a setting: the argument, or without one what is read. A secret is always a text.
func (t *tool) settingValue(ctx context.Context, args []string, secret bool) (any, error) {
	if len(args) > 1 && secret {
		return nil, session.Usage("%s is a secret, and arguments can be seen by others; leave the value out and type it, or pass it on standard input", args[0])
	}
	text := ""
	if len(args) > 1 {
		text = args[1]
	} else {
		var err error
		if text, err = t.readSecret(ctx, "value: "); err != nil {
			return nil, err
		}
	}
	if !secret && json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	return text, nil
}

func (t *tool) maintenance() *cobra.Command {
	var message string
	var duration time.Duration
	var yes bool
	columns := []output.Column{
		{Name: "mode"}, {Name: "message"}, {Name: "until", As: output.Time}, {Name: "changed", Path: "changed_at", As: output.Time}, {Name: "by", Path: "changed_by"},
	}
	cmd := &cobra.Command{
		Use: "maintenance [on|off]", Short: "Show, begin or end the maintenance of the installation", Args: arguments(0, 1),
		Example: "signalbox admin maintenance\nsignalbox admin maintenance on --message 'new disks' --for 1h -y\nsignalbox admin maintenance off",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			const path = "/api/admin/maintenance"
			if len(args) == 0 {
				return t.printObject(cmd, c, columns, path)
			}
			mode, ok := map[string]string{"on": "maintenance", "off": "off"}[args[0]]
			if !ok {
				return session.Usage("%q must be on or off", args[0])
			}
			if args[0] == "on" {
				if err := t.Confirm(cmd.Context(), yes, "Begin the maintenance? All other requests get 503."); err != nil {
					return err
				}
			}
			body := map[string]any{"mode": mode}
			if message != "" {
				body["message"] = message
			}
			if duration > 0 {
				body["until"] = t.Clock.Now().Add(duration).Format(time.RFC3339)
			}
			return t.send(cmd, c, http.MethodPost, path, body, t.showObject(columns))
		},
	}
	cmd.Flags().StringVar(&message, "message", "", "what people read meanwhile")
	addYes(cmd, &yes)
	cmd.Flags().DurationVar(&duration, "for", 0, "how long it probably takes, such as 1h")
	return cmd
}
