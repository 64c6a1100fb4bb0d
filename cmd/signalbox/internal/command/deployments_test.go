package command_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The settings of a revision are sent only if their flags are given, and its waits as whole seconds.
func TestRevise_serving(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "engine.lock")
	require.NoError(t, os.WriteFile(lock, []byte("a==1\n"), 0o600))
	const deployment, model = "dep_01kab3c4d5e6f7g8h9j0kmnpqr", "mdl_01kab3c4d5e6f7g8h9j0kmnpqr"
	for name, tc := range map[string]struct {
		flags []string
		want  string // the settings that are sent; empty if the command line is wrong
	}{
		"neither":      {nil, `{}`},
		"both":         {[]string{"--first-byte", "30m", "--idle", "90s"}, `{"timeouts":{"first_byte_s":1800,"idle_s":90}}`},
		"one":          {[]string{"--idle", "1h"}, `{"timeouts":{"idle_s":3600}}`},
		"half seconds": {[]string{"--idle", "1500ms"}, ""},
		"negative":     {[]string{"--first-byte", "-1s"}, ""},
		"engine":       {[]string{"--engine", "transformers", "--arg", "--dtype", "--arg", "float32"}, `{"engine":"transformers","args":["--dtype","float32"]}`},
		"command": {
			[]string{"--engine", "command", "--command", "serve", "--command", "--port={port}", "--requirements", lock},
			`{"engine":"command","command":["serve","--port={port}"],"requirements":"a==1\n"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := make(chan string, 1)
			h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				body, _ := io.ReadAll(r.Body)
				sent <- string(body)
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, `{"number":1,"state":"pending"}`)
			})
			got := h.run(append([]string{"deployments", "revise", deployment, "--model", model + "@1"}, tc.flags...)...)
			if tc.want == "" {
				require.Equal(t, 2, got.code, got.err)
				require.Contains(t, got.err, "--first-byte and --idle")
				return
			}
			require.Zero(t, got.code, got.err)
			require.JSONEq(t, `{"source":{"model_id":"`+model+`","version":1},"serving":`+tc.want+`}`, <-sent)
		})
	}
}

// A deployment whose first revision is refused exists already, and a failed promotion leaves its revision.
func TestCreateDeployment_refused(t *testing.T) {
	t.Parallel()
	const deployment, model = "dep_01kab3c4d5e6f7g8h9j0kmnpqr", "mdl_01kab3c4d5e6f7g8h9j0kmnpqr"
	for refused, hint := range map[string]bool{"/revisions": true, "/revisions/1/promote": false} {
		h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
			switch path := strings.TrimPrefix(r.URL.Path, "/api/model-deployments"); path {
			case "/" + deployment + refused:
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, `{"detail":"refused on purpose","code":"x"}`)
			case "":
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, `{"id":"`+deployment+`","name":"bot"}`)
			default:
				_, _ = io.WriteString(w, `{"number":1,"state":"ready","ready":true}`)
			}
		})
		got := h.run("deployments", "create", "bot", "--model", model+"@1", "--promote")
		require.NotZero(t, got.code)
		require.Contains(t, got.err, "refused on purpose")
		require.Equal(t, hint, strings.Contains(got.err, "signalbox deployments revise bot --model MODEL"), got.err)
	}
}
