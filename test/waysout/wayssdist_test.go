package waysout

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// inSdist is the prefix of the ways that the build of a source package tries.
const inSdist = "source package: "

// sdistWays returns the ways that the code of a source package tries while the environment of an engine is built. They
// are also ways of works.
func sdistWays() []string {
	return []string{
		"file of another work", "token of another work", "memory of another work", "signal to another work",
		"port of another work on loopback", "engine on the node", "key of an engine", "key of the node", "keyring", "key of the CA",
		"password of the database", "port of the database", "port of Redis", "admin port", "memory of the control plane",
		"signal to the control plane", "change of a cached object", "home of root", "user namespace",
	}
}

// packageIndex is a package index with one source package. The code of the package sends its results to the index.
type packageIndex struct {
	*httptest.Server

	sdist   []byte
	results chan string
}

const sdistName = "hostile-1.0"

func newPackageIndex(t *testing.T) *packageIndex {
	t.Helper()
	i := &packageIndex{results: make(chan string, 10)} // builds may be repeated
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/simple/hostile/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="/%s.tar.gz">%s.tar.gz</a></body></html>`, sdistName, sdistName)
		case "/" + sdistName + ".tar.gz":
			_, _ = w.Write(i.sdist)
		case "/results":
			raw, err := io.ReadAll(r.Body)
			if err == nil {
				select {
				case i.results <- string(raw):
				default: // the results of the first build are enough
				}
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

// settings returns the environment in which an agent installs packages from the index only.
func (i *packageIndex) settings() map[string]string {
	return map[string]string{
		"PIP_INDEX_URL": i.URL + "/simple", "PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "UV_DEFAULT_INDEX": "", "UV_INDEX_URL": "", "UV_INDEX": "",
		"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
	}
}

// engine deploys an engine, which is a target of works.
func (h *waysHarness) engine(ctx context.Context) {
	h.T.Helper()
	l := *h.admin
	l.Name += "-engine"
	version, err := l.Register(ctx, testenv.ExportModel(ctx, h.Installation, &l))
	require.NoError(h.T, err)
	require.NoError(h.T, l.Deploy(ctx, l.Name, version, map[string]any{"engine": "command", "command": fixtures.Engine()}))
	require.NoError(h.T, l.AwaitReady(ctx), h.Tail())
	var revision struct {
		Replicas []struct {
			PID int `json:"engine_pid"`
		} `json:"replicas"`
	}
	require.NoError(h.T, l.Client.Get(ctx, "/api/model-deployments/"+l.Deployment.ID+"/revisions/1", nil, &revision))
	require.Len(h.T, revision.Replicas, 1)
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", revision.Replicas[0].PID))
	require.NoError(h.T, err)
	args := strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
	require.Greater(h.T, len(args), 3, "fixtures.Engine has three arguments")
	args = args[len(args)-3:]
	h.known["node_engine"], h.known["engine_key"] = portIn(args[0]+":"+args[1]), h.onHost(revision.Replicas[0].PID, args[2])
	h.serving, h.version = &l, version
}

// onHost returns the path of a file of a process outside of the process's root, if the process sees the file elsewhere.
func (h *waysHarness) onHost(pid int, path string) string {
	h.T.Helper()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return fmt.Sprintf("/proc/%d/root%s", pid, path)
}

// startSdist adds a revision whose environment needs a source package. The code of the package tries the ways that
// sdistWays returns.
func (h *waysHarness) startSdist(ctx context.Context, index *packageIndex) {
	h.T.Helper()
	index.sdist = h.sdist(index.URL)
	sum := sha256.Sum256(index.sdist)
	requirements := fmt.Sprintf("--no-binary hostile\nhostile==1.0 --hash=sha256:%s\n", hex.EncodeToString(sum[:]))
	require.NoError(h.T, h.serving.Revise(ctx, h.version, map[string]any{"engine": "command", "command": fixtures.Engine(), "requirements": requirements}))
}

// sdist returns the archive of the source package.
func (h *waysHarness) sdist(url string) []byte {
	h.T.Helper()
	targets, err := os.ReadFile(h.targets())
	require.NoError(h.T, err)
	program, err := os.ReadFile("testdata/ways.py")
	require.NoError(h.T, err)
	backend, err := os.ReadFile("testdata/backend.py")
	require.NoError(h.T, err)
	files := map[string]string{
		"PKG-INFO":       "Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n",
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
		"backend.py":     string(backend), "ways.py": string(program), "targets.json": string(targets),
		"url": url + "/results", "names": strings.Join(sdistWays(), "\n"),
	}
	var raw bytes.Buffer
	packed := gzip.NewWriter(&raw)
	archive := tar.NewWriter(packed)
	for name, text := range maps.All(files) {
		require.NoError(h.T, archive.WriteHeader(&tar.Header{Name: sdistName + "/" + name, Mode: 0o644, Size: int64(len(text))}))
		_, err := archive.Write([]byte(text))
		require.NoError(h.T, err)
	}
	require.NoError(h.T, archive.Close())
	require.NoError(h.T, packed.Close())
	return raw.Bytes()
}

// collectSdist reads the results that the code of the source package has sent.
func (h *waysHarness) collectSdist(ctx context.Context, index *packageIndex) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(ctx, testenv.StageTimeout)
	defer cancel()
	select {
	case text := <-index.results:
		for line := range strings.Lines(text) {
			if parts := strings.SplitN(strings.TrimSpace(line), "|", 4); len(parts) == 4 && parts[0] == "way" {
				h.results[inSdist+parts[1]] = parts[2]
				h.T.Log(inSdist + strings.Join(parts[1:], " | "))
			}
		}
	case <-ctx.Done():
		var revision e2eflow.Revision
		_ = h.serving.Client.Get(context.WithoutCancel(ctx), "/api/model-deployments/"+h.serving.Deployment.ID+"/revisions/2", nil, &revision)
		require.FailNow(h.T, "the source package was not built in time", "%+v\n%s", revision.Reason, h.Tail())
	}
}
