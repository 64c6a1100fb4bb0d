package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/credential"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/devicelogin"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// maxToken is the maximum number of bytes of a token on standard input.
const maxToken = 64 << 10

type loginOptions struct {
	withToken, noBrowser bool
	store                string
}

func (t *tool) login() *cobra.Command {
	var o loginOptions
	cmd := &cobra.Command{
		Use: "login", GroupID: groupTool, Short: "Log in to an installation with a browser", Args: noArguments,
		Long: `Log in to an installation.

The command prints an address and a code. Open the address in a browser in which you are signed in, on any machine, compare the code, and
approve. The login is stored in the keyring of the operating system or, if it has none, in a file that only you can read.`,
		Example: `signalbox login --server https://signalbox.example.com
# in a script, with a token from elsewhere
signalbox login --server https://signalbox.example.com --with-token < token.txt`,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runLogin(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.withToken, "with-token", false, "read an access token from standard input instead")
	f.BoolVar(&o.noBrowser, "no-browser", false, "do not open a browser on this machine")
	f.StringVar(&o.store, "credential-store", "", "where to store the login: keyring or file (SERVICE_CREDENTIAL_STORE)")
	must(cmd.RegisterFlagCompletionFunc("credential-store",
		cobra.FixedCompletions([]string{credential.Keyring, credential.File}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// runLogin gets a token and stores it. The store is chosen first, so that no token is lost because it cannot be stored.
func (t *tool) runLogin(ctx context.Context, o loginOptions) error {
	dir, chosen, err := t.loginTarget()
	if err != nil {
		return err
	}
	if o.withToken && chosen.FolderOnly {
		return session.Usage("only %s names %s; to send a token there, add --server %s", settings.FolderFile, chosen.Server, chosen.Server)
	}
	c, err := t.ClientOf(chosen)
	if err != nil {
		return err
	}
	kind := firstOf(o.store, t.Getenv(settings.EnvStore), chosen.Store)
	if kind != "" {
		if err := oneOf("credential-store", kind, []string{credential.Keyring, credential.File}); err != nil {
			return err
		}
	}
	store, reason, err := credential.Choose(kind, dir)
	if err != nil {
		return err
	}
	if !encrypted(chosen.Server) {
		t.Say("warning: %s is not encrypted; anyone on the way can read the login", chosen.Server)
	}
	login, err := t.getToken(ctx, c, o)
	if err != nil {
		return err
	}
	login.Server = chosen.Server
	who, err := whoIs(ctx, c.With(login.Token))
	if err != nil {
		return fmt.Errorf("%s does not accept the token: %w", chosen.Server, err)
	}
	login.User = who.Username
	if err := t.storeLogin(dir, chosen, store, login, true); err != nil {
		return err
	}
	t.Say("logged in to %s as %s%s", chosen.Server, who.Username, t.until(login))
	if t.Getenv(settings.EnvToken) != "" {
		t.Say("%s is set and comes before this login", settings.EnvToken)
	}
	if reason != nil {
		t.Say("the login is in %s, which only you can read, because this machine has no keyring (%s)", filepath.Join(dir, credential.FileName), reason)
	}
	return nil
}

// encrypted reports whether requests to an installation are encrypted, or do not leave this machine.
func encrypted(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "https" {
		return err == nil
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// storeLogin stores a login. Its context becomes the current one if current is set or none is. An earlier login of the context
// in another store is removed.
func (t *tool) storeLogin(dir string, chosen settings.Chosen, store credential.Store, login credential.Credential, current bool) error {
	if err := store.Set(chosen.Name, login); err != nil {
		return err
	}
	before := ""
	err := settings.Update(dir, func(config *settings.Config) error {
		old := config.Contexts[chosen.Name]
		before = old.Store
		config.Contexts[chosen.Name] = settings.Context{Server: chosen.Server, Project: old.Project, Store: store.Kind()}
		if current || config.Current == "" {
			config.Current = chosen.Name
		}
		return nil
	})
	if err != nil || before == "" || before == store.Kind() {
		return err
	}
	former, err := credential.Open(before, dir)
	if err == nil {
		err = former.Delete(chosen.Name)
	}
	if err != nil {
		t.Say("the earlier login is still in the %s: %s", before, err)
	}
	return nil
}

// until describes how long a login is valid.
func (t *tool) until(login credential.Credential) string {
	if login.ExpiresAt.IsZero() {
		return ""
	}
	left := output.Span(login.ExpiresAt.Sub(t.Clock.Now()))
	return ", valid for " + left + " (until " + login.ExpiresAt.In(t.Zone).Format("2006-01-02 15:04") + ")"
}

// loginTarget returns the folder of the settings, and the installation and the context of a login.
func (t *tool) loginTarget() (dir string, chosen settings.Chosen, err error) {
	dir, config, err := t.loadConfig()
	if err != nil {
		return dir, chosen, err
	}
	name := firstOf(t.Flags.Context, t.Getenv(settings.EnvContext))
	if _, known := config.Contexts[name]; name != "" && !known {
		// A new context gets the name that is given; there is nothing to look up.
		flags := t.Flags.Flags
		flags.Context = ""
		chosen, err = settings.Choose(flags, without(t.Getenv, settings.EnvContext), settings.Folder{}, settings.Config{})
		chosen.Name = name
	} else {
		chosen, err = t.Settings()
	}
	if err != nil {
		return dir, chosen, err
	}
	if chosen.Server == "" {
		return dir, chosen, session.Usage("no installation is known; add --server https://ADDRESS")
	}
	if chosen.Name == "" {
		chosen.Name = settings.ContextName(chosen.Server)
	}
	return dir, chosen, nil
}

func without(getenv func(string) string, name string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return ""
		}
		return getenv(asked)
	}
}

// getToken gets a token from standard input, or by the approval of a person.
func (t *tool) getToken(ctx context.Context, c *client.Client, o loginOptions) (credential.Credential, error) {
	if o.withToken {
		return t.readToken(ctx)
	}
	req, err := devicelogin.Start(ctx, c)
	if err != nil {
		return credential.Credential{}, err
	}
	// This is the purpose of the command, so it is printed with --quiet too.
	fmt.Fprintf(t.Err, "open   %s\ncode   %s\n", output.Printable(req.Complete), output.Printable(req.UserCode))
	if t.ErrTerminal && t.InTerminal && !o.noBrowser && !t.NoInput {
		if err := t.OpenBrowser(req.Complete); err != nil {
			t.Detail("no browser was opened", "cause", err)
		}
	}
	t.Say("waiting for your approval in the browser; Ctrl-C ends it")
	began := t.Clock.Now()
	token, err := devicelogin.Await(ctx, c, t.Clock, req)
	if err != nil {
		return credential.Credential{}, err
	}
	login := credential.Credential{Token: token.Access}
	if token.Valid > 0 {
		login.ExpiresAt = began.Add(token.Valid)
	}
	return login, nil
}

// readToken reads a token from standard input.
func (t *tool) readToken(ctx context.Context) (credential.Credential, error) {
	raw, err := t.tokenText(ctx)
	if err != nil {
		return credential.Credential{}, err
	}
	if len(raw) > maxToken {
		return credential.Credential{}, session.Usage("standard input has more than %d bytes; a token is shorter", maxToken)
	}
	token, err := credential.ParseToken(string(raw))
	if err != nil {
		return credential.Credential{}, session.Usage("read the token from standard input: %s", err)
	}
	return credential.Credential{Token: token, ExpiresAt: credential.Expiry(token)}, nil
}

// tokenText returns what is typed at a terminal, without showing it, or the whole standard input.
func (t *tool) tokenText(ctx context.Context) ([]byte, error) {
	if t.InTerminal && t.ReadHidden != nil {
		text, err := t.readSecret(ctx, "token: ")
		return []byte(text), err
	}
	raw, err := io.ReadAll(io.LimitReader(t.In, maxToken+1))
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	return raw, nil
}

// account is a response of GET /api/auth/me.
type account struct {
	Username string `json:"username"`
	Role     string `json:"role"`
}

func whoIs(ctx context.Context, c *client.Client) (account, error) {
	var a account
	err := c.Get(ctx, "/api/auth/me", nil, &a)
	return a, err
}

func (t *tool) logout() *cobra.Command {
	return &cobra.Command{
		Use: "logout", GroupID: groupTool, Short: "End the login and remove it from this machine", Args: noArguments,
		Example: "signalbox logout\nsignalbox logout --context staging",
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := t.Settings()
			if err != nil {
				return err
			}
			user, err := t.endLogin(cmd.Context(), chosen)
			if err != nil {
				return err
			}
			if t.Getenv(settings.EnvToken) != "" {
				t.Say("the login of %s has ended", settings.EnvToken)
				return nil
			}
			store, err := t.Store(chosen.Store)
			if err != nil {
				return err
			}
			if err := store.Delete(chosen.Name); err != nil {
				return err
			}
			t.Say("logged out of %s (%s)", chosen.Server, firstOf(user, "the login had expired"))
			return nil
		},
	}
}

// endLogin ends the login on the server and returns its user. A login that has expired, or that the server no longer accepts, has ended already.
func (t *tool) endLogin(ctx context.Context, chosen settings.Chosen) (user string, err error) {
	login, err := t.Login(chosen)
	if expired, ok := errors.AsType[*session.LoginError](err); ok && expired.Expired {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	c, err := t.ClientOf(chosen)
	if err != nil {
		return "", err
	}
	err = c.With(login.Token).Post(ctx, "/api/auth/logout", nil, nil)
	if refused, ok := errors.AsType[*client.Error](err); err != nil && (!ok || refused.Status != http.StatusUnauthorized) {
		return "", fmt.Errorf("the login was not ended and is kept: %w", err)
	}
	return login.User, nil
}

func (t *tool) whoami() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", GroupID: groupTool, Short: "Show the user and how long the login is valid", Args: noArguments,
		Example: "signalbox whoami\nsignalbox whoami --jq .username",
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := t.Settings()
			if err != nil {
				return err
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			login, err := t.Login(chosen)
			if err != nil {
				return err
			}
			columns := []output.Column{
				{Name: "username"}, {Name: "role"}, {Name: "email"}, {Name: "teams"}, {Name: "gpu_limit", Path: "quota.gpu_limit"},
			}
			if err := t.printObject(cmd, c, columns, "/api/auth/me"); err != nil {
				return err
			}
			if !login.ExpiresAt.IsZero() {
				t.Say("%s, login valid for %s", chosen.Server, output.Span(login.ExpiresAt.Sub(t.Clock.Now())))
			} else {
				t.Say("%s", chosen.Server)
			}
			return nil
		},
	}
}

func (t *tool) contexts() *cobra.Command {
	names := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		dir, err := settings.Dir(t.Getenv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		config, err := settings.Load(dir)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return sortedContexts(config), cobra.ShellCompDirectiveNoFileComp
	}
	ls := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the logins of this machine", Example: "signalbox context ls", Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return t.listContexts() },
	}
	use := &cobra.Command{
		Use: "use CONTEXT", Short: "Choose the login that commands use", Example: "signalbox context use staging",
		Args: arguments(1, 1), ValidArgsFunction: names,
		RunE: func(_ *cobra.Command, args []string) error { return t.useContext(args[0]) },
	}
	rm := &cobra.Command{
		Use: "rm CONTEXT", Short: "Remove a login from this machine, without ending it", Example: "signalbox context rm staging",
		Args: arguments(1, 1), ValidArgsFunction: names,
		RunE: func(_ *cobra.Command, args []string) error { return t.removeContext(args[0]) },
	}
	return noun("context", groupTool, "The installations and logins of this machine", "signalbox context ls\nsignalbox context use staging", nil, ls, use, rm)
}

func sortedContexts(config settings.Config) []string { return sortedKeys(config.Contexts) }
