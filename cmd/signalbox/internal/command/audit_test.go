package command

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestParse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("a.b.c\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	o, err := ParseAudit([]string{"verify", "--server", "https://x.example", "--token-file", file}, nil, nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "https://x.example", o.Server)
	require.Equal(t, "a.b.c", o.Token.Reveal())
	o, err = ParseAudit([]string{"verify", "--token-file", "-"}, strings.NewReader("d.e.f"), nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "d.e.f", o.Token.Reveal())
	for name, args := range map[string][]string{
		"must name a file": {"verify"}, "no such file": {"verify", "--token-file", file + ".gone"}, "contains no token": {"verify", "--token-file", empty},
		`unknown argument "now"`: {"verify", "--token-file", file, "now"},
	} {
		_, err := ParseAudit(args, nil, nil, io.Discard)
		require.ErrorContains(t, err, name)
	}
	for _, args := range [][]string{nil, {"verfy"}, {"verify", "--frobnicate"}, {"verify", "--help"}} {
		var errOut bytes.Buffer
		_, err := ParseAudit(args, nil, nil, &errOut)
		require.ErrorIs(t, err, flag.ErrHelp, "%v", args)
		require.Contains(t, errOut.String(), "token-file")
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		out    []string
		err    string
	}{
		"whole": {
			200, `{"ok": true, "chains": [{"service": "auth", "ok": true, "rows": 7, "checkpoints": 4, "fault": null}]}`,
			[]string{"auth       ok: 7 rows, 4 signed heads"},
			"",
		},
		"broken": {
			200, `{"ok": false, "chains": [{"service": "auth", "ok": true, "rows": 7, "checkpoints": 4, "fault": null},
			{"service": "jobs", "ok": false, "rows": 9, "checkpoints": 2, "fault": "row 3 (aud_x): the row was deleted; and 5 more"}]}`,
			[]string{"auth       ok", "jobs       BROKEN: row 3 (aud_x): the row was deleted", "and 5 more"},
			"the audit is broken",
		},
		"unreachable": {503, `{"detail": "the audit is incomplete: jobs does not respond", "code": "audit_incomplete"}`, nil, "jobs does not respond"},
		"not admin":   {403, `{"detail": "admins only"}`, nil, "403: admins only"},
		"no chains":   {200, `{"ok": true, "chains": []}`, nil, "names no service"},
		"not JSON":    {200, `hello`, nil, "decode"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/api/admin/audit/verify" || r.Header.Get("Authorization") != "Bearer a.b.c" {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		var out bytes.Buffer
		err := VerifyAudit(t.Context(), AuditOptions{Server: server.URL, Token: secret.New("a.b.c"), Out: &out})
		server.Close()
		if c.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.err, name)
		}
		for _, want := range c.out {
			require.Contains(t, out.String(), want, name)
		}
	}
}
