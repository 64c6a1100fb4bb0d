package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

func sessionKind() kind {
	return kind{one: "session", many: "sessions", lister: "profile sessions", path: "/api/profile/sessions", prefix: "ses_", name: "id", columns: []output.Column{
		{Name: "id"},
		{Name: "current"},
		{Name: "method"},
		{Name: "client", Path: "client_name"},
		{Name: "address", Path: "client_address"},
		{Name: "used", Path: "last_used_at", Right: true, As: output.Age},
		{Name: "age", Path: "created_at", Right: true, As: output.Age},
	}}
}

func (t *tool) profile() *cobra.Command {
	columns := []output.Column{
		{Name: "username"}, {Name: "role"}, {Name: "name", Path: "display_name"}, {Name: "email"}, {Name: "tz"}, {Name: "default_project"},
	}
	get := &cobra.Command{
		Use: "get", Aliases: []string{"show"}, Short: "Show your profile", Example: "signalbox profile get", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			return t.printObject(cmd, c, columns, "/api/profile")
		},
	}
	sessions := t.list(sessionKind(), "List where you are logged in", "signalbox profile sessions")
	sessions.Use, sessions.Aliases = "sessions", nil
	end := t.remove(sessionKind(), "End a session", "signalbox profile end-session ses_01kab3c4d5e6f7g8h9j0kmnpqr -y")
	end.Use, end.Aliases = "end-session SESSION", nil
	return noun("profile", groupPeople, "Your profile, password and sessions", "signalbox profile get\nsignalbox profile sessions", nil,
		get, t.changePassword(), sessions, end)
}

func (t *tool) changePassword() *cobra.Command {
	return &cobra.Command{
		Use: "password", Short: "Change your password", Args: noArguments,
		Long: `Change your password. It is read from standard input, or from the terminal without being shown: first the present password, then the new one,
on a line each. The change ends all your sessions, also this login.`,
		Example: "signalbox profile password",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			present, err := t.readSecret(cmd.Context(), "present password: ")
			if err != nil {
				return err
			}
			fresh, err := t.readSecret(cmd.Context(), "new password: ")
			if err != nil {
				return err
			}
			body := map[string]any{"current_password": present, "new_password": fresh}
			if err := c.Post(cmd.Context(), "/api/profile/password", body, nil); err != nil {
				return err
			}
			t.Say("the password is changed; log in again: signalbox login")
			return nil
		},
	}
}

// maxSecret is the maximum size of a secret that a person types, in bytes.
const maxSecret = 4096

// readSecret reads a line without showing it on a terminal.
func (t *tool) readSecret(ctx context.Context, prompt string) (string, error) {
	if t.InTerminal && t.NoInput {
		return "", session.Usage("it must come from standard input, because of --no-input")
	}
	if t.InTerminal && t.ReadHidden != nil {
		fmt.Fprint(t.Err, prompt)
		text, err := t.ReadHidden(ctx)
		fmt.Fprintln(t.Err)
		return strings.TrimRight(string(text), "\r\n"), err
	}
	return t.readLine()
}

// readLine reads one line of standard input, byte by byte, so that the next call gets the next line.
func (t *tool) readLine() (string, error) {
	var line strings.Builder
	one := make([]byte, 1)
	for line.Len() < maxSecret {
		n, err := t.In.Read(one)
		if n == 1 && one[0] == '\n' {
			break
		}
		line.Write(one[:n])
		if errors.Is(err, io.EOF) && line.Len() > 0 {
			break
		}
		if err != nil {
			return "", session.Usage("standard input ends too early; each value is a line of its own")
		}
	}
	return strings.TrimRight(line.String(), "\r"), nil
}
