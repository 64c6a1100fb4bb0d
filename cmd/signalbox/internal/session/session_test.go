package session

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/credential"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// harness is a session in folders of its own, with a fake clock.
type harness struct {
	*Session
	env      map[string]string
	out, err bytes.Buffer
	clk      *clock.Fake
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{env: map[string]string{"HOME": t.TempDir()}, clk: clock.NewFake(time.Unix(1e9, 0))}
	h.Session = &Session{
		Env: &Env{
			In: strings.NewReader(""), Out: &h.out, Err: &h.err, Getenv: func(name string) string { return h.env[name] }, Dir: t.TempDir(),
			Clock: h.clk, Jitter: func() float64 { return 0 }, Zone: time.UTC, Version: "v1",
		},
		Flags: &Flags{Output: "table", Color: "auto"},
	}
	return h
}

// login stores a login of a server under a context.
func (h *harness) login(t *testing.T, context, server, token string, expires time.Time) {
	t.Helper()
	dir, err := settings.Dir(h.Getenv)
	require.NoError(t, err)
	c := credential.Credential{Server: server, Token: secret.New(token), ExpiresAt: expires}
	require.NoError(t, credential.NewFile(dir).Set(context, c))
	require.NoError(t, settings.Update(dir, func(c *settings.Config) error {
		c.Contexts[context] = settings.Context{Server: server, Store: credential.File}
		c.Current = context
		return nil
	}))
}

// token returns the token that the client would send, or the error.
func (h *harness) token() (string, error) {
	chosen, err := h.Settings()
	if err != nil {
		return "", err
	}
	login, err := h.Session.Login(chosen)
	return login.Token.Reveal(), err
}

func requireLoginError(t *testing.T, want string, err error) {
	t.Helper()
	var login *LoginError
	require.ErrorAs(t, err, &login)
	require.ErrorContains(t, err, want)
}

func TestSession_Login_onlyToItsServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.login(t, "a", "https://a.example", "token-a", time.Time{})
	got, err := h.token()
	require.NoError(t, err)
	require.Equal(t, "token-a", got)

	h.Flags.Server = "https://b.example"
	_, err = h.token()
	requireLoginError(t, "not logged in to https://b.example", err)
	h.Context = "a"
	_, err = h.token()
	requireLoginError(t, "not logged in to https://b.example", err)
	h.Context, h.Flags.Server = "", "HTTPS://A.example:443/"
	got, err = h.token()
	require.NoError(t, err)
	require.Equal(t, "token-a", got)
	h.Flags.Server = "http://a.example"
	_, err = h.token()
	requireLoginError(t, "not logged in to http://a.example", err)

	// Someone edits the context.
	h.Flags.Server = ""
	dir, err := settings.Dir(h.Getenv)
	require.NoError(t, err)
	require.NoError(t, settings.Update(dir, func(c *settings.Config) error {
		c.Contexts["a"] = settings.Context{Server: "https://evil.example", Store: credential.File}
		return nil
	}))
	_, err = h.token()
	requireLoginError(t, "not logged in to https://evil.example", err)
}

func TestSession_Login_foreignFolder(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.env[settings.EnvToken] = "token-e\n"
	require.NoError(t, os.WriteFile(filepath.Join(h.Dir, settings.FolderFile), []byte("server: https://evil.example\n"), 0o600))
	_, err := h.token()
	requireLoginError(t, "is not sent there", err)
	require.NotContains(t, err.Error(), "token-e")
	h.env[settings.EnvServer] = "https://a.example"
	got, err := h.token()
	require.NoError(t, err)
	require.Equal(t, "token-e", got)
	// The user is logged in to the server of the folder, so it is not a foreign one.
	delete(h.env, settings.EnvServer)
	h.login(t, "e", "https://evil.example", "token", time.Time{})
	_, err = h.token()
	require.NoError(t, err)
	h.env[settings.EnvToken] = "hunter2\nhunter2"
	_, err = h.token()
	requireLoginError(t, settings.EnvToken, err)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestSession_Login_expired(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.login(t, "a", "https://a.example", "token", h.clk.Now().Add(time.Minute))
	_, err := h.token()
	require.NoError(t, err)
	h.clk.Advance(time.Minute)
	_, err = h.token()
	requireLoginError(t, "run: signalbox login --context a", err)
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, h.clk.Now().Unix()+60))
	h.env[settings.EnvToken] = "h." + claims + ".s"
	_, err = h.token()
	require.NoError(t, err)
	h.clk.Advance(time.Minute)
	_, err = h.token()
	requireLoginError(t, "the token in SERVICE_TOKEN has expired", err)
}

func TestSession_Settings_emptyFlags(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"server", "context", "project"} {
		h := newHarness(t)
		h.Explicit([]string{name})
		_, err := h.Settings()
		var usage *UsageError
		require.ErrorAs(t, err, &usage, name)
	}
	_, err := newHarness(t).Client()
	requireLoginError(t, "no installation is chosen", err)
}

func TestSession_Confirm(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]error{"y\n": nil, "YES\n": nil, "y": nil, "n\n": ErrDeclined, "\n": ErrDeclined, "": ErrDeclined, "yep\n": ErrDeclined} {
		h := newHarness(t)
		h.InTerminal, h.In = true, strings.NewReader(answer)
		require.ErrorIs(t, h.Confirm(t.Context(), false, "Delete %s?", "a\x1b[2Kb"), want, answer)
		require.Equal(t, `Delete a\x1b[2Kb? [y/N] `, h.err.String())
	}
	h := newHarness(t)
	h.In = strings.NewReader("y\n")
	var usage *UsageError
	require.ErrorAs(t, h.Confirm(t.Context(), false, "Delete?"), &usage)
	require.ErrorContains(t, h.Confirm(t.Context(), false, "Delete?"), "add -y")
	h.InTerminal, h.NoInput = true, true
	require.ErrorAs(t, h.Confirm(t.Context(), false, "Delete?"), &usage)
	require.NoError(t, h.Confirm(t.Context(), true, "Delete?"))
	require.Empty(t, h.err.String(), "no question")
}

func TestSession_Confirm_interrupted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	in, person := io.Pipe()
	t.Cleanup(func() { _ = person.Close() })
	h.InTerminal, h.In = true, in
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("Ctrl-C")
	cancel(over)
	require.ErrorIs(t, h.Confirm(ctx, false, "Delete?"), over)
}

func TestSession_verboseShowsNoSecret(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"token":"hunter2"}`) }))
	t.Cleanup(server.Close)
	for _, quiet := range []bool{false, true} {
		h := newHarness(t)
		h.Verbose, h.Quiet = 2, quiet
		h.login(t, "a", server.URL, "hunter2", time.Time{})
		c, err := h.Client()
		require.NoError(t, err)
		require.NoError(t, c.Post(t.Context(), "/api/x?password=hunter2", map[string]string{"a": "hunter2"}, nil))
		require.NoError(t, c.Get(t.Context(), "/api/share/hunter2/metrics", nil, nil))
		require.NoError(t, c.Upload(t.Context(), http.MethodPut, server.URL+"/api/blobs/k?signature=hunter2", nil, []byte("hunter2")))
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		require.Error(t, c.Upload(t.Context(), http.MethodPut, gone.URL+"/b?signature=hunter2", nil, nil))
		require.NotContains(t, h.err.String(), "hunter2")
		require.Contains(t, h.err.String(), "path=/api/blobs/k status=200")
		require.Empty(t, h.out.String())
	}
}

func TestSession_Say_escapes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.Say("created %s", "a\x1b]0;x\a\nb")
	require.Equal(t, `created a\x1b]0;x\a b`+"\n", h.err.String())
	h.Quiet = true
	h.Say("x")
	h.Detail("x")
	require.Equal(t, 1, strings.Count(h.err.String(), "\n"))
}

func TestSession_Watcher_tellsLongWait(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	w := h.Watcher(nil)
	for try := range 10 {
		w.Retrying(errors.New("cannot reach it"), w.Backoff.Wait(try))
	}
	require.Equal(t, "cannot reach it; trying again, Ctrl-C ends it\n", h.err.String(), "short waits are not worth a line")
}

func TestSession_Printer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags Flags
		want  string
	}{
		"format":           {Flags{Output: "xml"}, `"xml" is not a format`},
		"jq":               {Flags{Output: "table", Filter: ".["}, "parse the jq expression"},
		"columns of JSON":  {Flags{Output: "json", Columns: []string{"a"}}, "--columns selects"},
		"columns and a jq": {Flags{Output: "table", Filter: ".", Columns: []string{"a"}}, "--columns selects"},
	} {
		h := newHarness(t)
		*h.Flags = tc.flags
		_, err := h.Printer()
		var usage *UsageError
		require.ErrorAs(t, err, &usage, name)
		require.ErrorContains(t, err, tc.want, name)
	}
	h := newHarness(t)
	h.OutTerminal, h.Width, h.Filter = true, 80, "."
	p, err := h.Printer()
	require.NoError(t, err)
	require.Equal(t, []any{output.Lines, 80, true, true}, []any{p.Format, p.Width, p.Terminal, p.Color})
	h.env["NO_COLOR"] = "1"
	require.False(t, h.Colored(true))
	h.Color = "always"
	require.True(t, h.Colored(false))
	h.OutTerminal, h.Output = false, "json"
	h.Explicit([]string{"output"})
	p, err = h.Printer()
	require.NoError(t, err)
	require.Equal(t, []any{output.JSON, 0, false}, []any{p.Format, p.Width, p.Terminal})
}
