package command_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/credential"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// serveMe accepts one token.
func serveMe(token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/auth/me" || r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"detail":"Could not validate credentials"}`)
			return
		}
		_, _ = io.WriteString(w, `{"username":"ada","role":"operator"}`)
	}
}

func TestLogin_withToken_showsRemainingLife(t *testing.T) {
	t.Parallel()
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, time.Now().Add(3*time.Hour+time.Minute/2).Unix()))
	token := "h." + claims + ".hunter2"
	h := newHarness(t, serveMe(token))
	delete(h.env, "SERVICE_TOKEN")
	h.in = token + "\n"
	got := h.run("login", "--with-token", "--credential-store", "file")
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.err, "as ada, valid for 3h (until ")
	require.NotContains(t, got.out+got.err, "hunter2")
	dir := filepath.Join(h.env["HOME"], ".config", "signalbox")
	raw, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	require.NoError(t, err)
	require.NotContains(t, string(raw), "hunter2")
	config, err := settings.Load(dir)
	require.NoError(t, err)
	require.Equal(t, "file", config.Contexts[config.Current].Store)
	got = h.run("whoami")
	require.Contains(t, got.err, "login valid for 3h")
	require.Contains(t, got.out, "ada")
}

func TestLogin_withToken_refusals(t *testing.T) {
	t.Parallel()
	for in, code := range map[string]int{"": 2, "two words\n": 2, "hunter2": 4} {
		h := newHarness(t, serveMe("a.b.c"))
		delete(h.env, "SERVICE_TOKEN")
		h.in = in
		got := h.run("login", "--with-token", "--credential-store", "file")
		require.Equal(t, code, got.code, got.err)
		require.NotContains(t, got.err, "hunter2")
		require.NoFileExists(t, filepath.Join(h.env["HOME"], ".config", "signalbox", "credentials.json"), "a token that does not work is not stored")
	}
}

func TestExecute_unknownContext(t *testing.T) {
	t.Parallel()
	h := newHarness(t, refuseAll)
	got := h.run("jobs", "ls", "--context", "gone")
	require.Equal(t, 3, got.code)
	require.Contains(t, got.err, "no such context: gone")
	got = h.run("jobs", "ls", "--server", "")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, "--server must not be empty")
}

// The time of --timeout ends a stream as it ends a request.
func TestExecute_timeout(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/jobs/job_01kab3c4d5e6f7g8h9j0kmnpqr" {
			_, _ = io.WriteString(w, `{"id":"job_01kab3c4d5e6f7g8h9j0kmnpqr","state":"running","version":1}`)
			return
		}
		<-r.Context().Done()
	})
	for _, args := range [][]string{{"jobs", "wait", "job_01kab3c4d5e6f7g8h9j0kmnpqr"}, {"jobs", "ls"}} {
		got := h.run(append(args, "--timeout", "100ms")...)
		require.Equal(t, 8, got.code, got.err)
		require.Contains(t, got.err, "the time of --timeout is over")
	}
}

// A login that has expired can be removed too.
func TestLogout_expired(t *testing.T) {
	t.Parallel()
	h := newHarness(t, refuseAll)
	delete(h.env, "SERVICE_TOKEN")
	dir := filepath.Join(h.env["HOME"], ".config", "signalbox")
	login := credential.Credential{Server: h.server.URL, Token: secret.New("hunter2"), ExpiresAt: time.Unix(1e9, 0)}
	require.NoError(t, credential.NewFile(dir).Set("a", login))
	require.NoError(t, settings.Update(dir, func(c *settings.Config) error {
		c.Contexts["a"] = settings.Context{Server: h.server.URL, Store: credential.File}
		return nil
	}))
	got := h.run("whoami")
	require.Equal(t, 4, got.code)
	require.Contains(t, got.err, "your login has expired; run: signalbox login")
	got = h.run("logout")
	require.Equal(t, 0, got.code, got.err)
	_, err := credential.NewFile(dir).Get("a")
	require.ErrorIs(t, err, credential.ErrNone)
}

func TestJobs_list_leftOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Total-Count", "9")
		_, _ = io.WriteString(w, `[{"id":"job_01kab3c4d5e6f7g8h9j0kmnpqr"},{"id":"job_2"}]`)
	})
	for _, format := range []string{"table", "json", "jsonl"} {
		require.Contains(t, h.run("jobs", "ls", "-o", format).err, "2 of 9 jobs; --limit 0 lists all")
		require.Contains(t, h.run("jobs", "ls", "-o", format, "--limit", "0").err, "2 of 9 jobs; the server lists no more")
	}
}
