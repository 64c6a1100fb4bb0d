package host_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
)

// wheelIndex serves a package index with one wheel. It returns the address of the index, the hash of the wheel and a
// counter of the wheel's downloads.
func wheelIndex(t *testing.T) (address, sum string, downloads *atomic.Int32) {
	t.Helper()
	var raw bytes.Buffer
	archive := zip.NewWriter(&raw)
	const info, file = "sb_demo-1.0.dist-info/", "sb_demo-1.0-py3-none-any.whl"
	for name, text := range map[string]string{
		"sb_demo.py": "", "sb_demo.dat": strings.Repeat("x", 100_000), info + "METADATA": "Metadata-Version: 2.1\nName: sb_demo\nVersion: 1.0\n",
		info + "WHEEL":  "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD": "sb_demo.py,,\nsb_demo.dat,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	} {
		w, err := archive.Create(name)
		require.NoError(t, err)
		_, err = w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	h := sha256.Sum256(raw.Bytes())
	sum, downloads = hex.EncodeToString(h[:]), &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/simple/sb-demo/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="/%s#sha256=%s">%s</a></body></html>`, file, sum, file)
		case "/" + file:
			downloads.Add(1)
			_, _ = w.Write(raw.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/simple", sum, downloads
}

// Builds inside boundaries share a wheel, although each build runs as another user and sees no other build.
func TestIsolatedBuild_wheelsShared(t *testing.T) {
	t.Parallel()
	address, sum, downloads := wheelIndex(t)
	environments := t.TempDir()
	for remark := range 2 {
		a := newAttempt(t, "python -c 'import sb_demo'", func(cfg *host.Config) {
			cfg.Environments, cfg.WheelBytes = environments, 1<<20
			cfg.Environ = append(cfg.Environ, "PIP_INDEX_URL="+address, "PIP_FIND_LINKS=", "PIP_NO_INDEX=", "UV_DEFAULT_INDEX=", "UV_INDEX_URL=", "UV_INDEX=",
				"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
		})
		a.work.Attempt.Environment = executor.EnvironmentSpec{Requirements: fmt.Sprintf("# %d\nsb_demo==1.0 --hash=sha256:%s\n", remark, sum)}
		a.apply()
		var seen []executor.Observation
		require.Eventually(t, func() bool { // a build takes long on a busy machine
			seen = a.host.Observed()
			return len(seen) == 1 && seen[0].Phase == executor.PhaseExited
		}, 5*time.Minute, 10*time.Millisecond)
		exit := seen[0].Exit
		require.Zero(t, exit.Code, "%+v %s", exit, a.logText())
		require.Empty(t, exit.Reason, "%+v", exit)
	}
	require.EqualValues(t, 1, downloads.Load())
	cached, err := os.Stat(filepath.Join(environments, "wheels", sum, "sb_demo-1.0-py3-none-any.whl"))
	require.NoError(t, err)
	require.EqualValues(t, "-rw-r--r--", cached.Mode().String())
	left, err := filepath.Glob(filepath.Join(environments, "*.build-*"))
	require.NoError(t, err)
	require.Empty(t, strings.Join(left, " "))
}
