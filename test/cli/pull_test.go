package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// interruptedPull interrupts a download in the middle and continues it. The part is kept, only the rest is requested,
// and the digest of the file is right.
func (w *world) interruptedPull(t *testing.T) {
	t.Helper()
	data := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte("pull"))).Read(data)
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	r := w.newRun(t, "apart", "large")
	r.lifecycle("running")
	r.upload("large.bin", "hf_export", "files", data)
	r.upload("small.bin", "hf_export", "files", data[:100])
	p := newHalfProxy(t, w.URL)
	home := t.TempDir()
	pull := []string{"--server", p.server.URL, "artifacts", "pull", r.ID, "--dir", "out"}
	cmd := w.program(t, home, w.signedIn("admin"), pull...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	file := filepath.Join(home, "out", "hf_export-3", "large.bin")
	part := file + "." + digest[:16] + ".part"
	w.until(t, "half of the file has arrived", func() bool { return sizeOf(part) >= int64(len(data)/2) || len(ended) > 0 })
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, <-ended)
	require.Equal(t, 130, cmd.ProcessState.ExitCode(), errOut.String())
	require.Contains(t, errOut.String(), "run the same command again to continue")
	require.NoFileExists(t, file)
	have := sizeOf(part)
	require.GreaterOrEqual(t, have, int64(len(data)/2))
	require.Less(t, have, int64(len(data)))
	p.release()

	again := w.program(t, home, w.signedIn("admin"), pull...)
	out, err := again.CombinedOutput()
	require.NoError(t, err, string(out))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, sum, sha256.Sum256(got))
	require.NoFileExists(t, part)
	require.FileExists(t, filepath.Join(filepath.Dir(file), "small.bin"))
	require.Equal(t, []string{"", fmt.Sprintf("bytes=%d-", have)}, p.ranges(digest), "only the missing bytes may be requested again")

	// A part that is not a part of the file does not become one.
	require.NoError(t, os.Rename(file, part))
	require.NoError(t, os.WriteFile(part, bytes.Repeat([]byte("x"), 100), 0o600))
	wrong := w.program(t, home, w.signedIn("admin"), pull...)
	out, err = wrong.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 1, wrong.ProcessState.ExitCode())
	require.Contains(t, string(out), "download it again")
	require.NoFileExists(t, file)
	out, err = w.program(t, home, w.signedIn("admin"), pull...).CombinedOutput()
	require.NoError(t, err, string(out))
	require.FileExists(t, file)
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// halfProxy is a proxy in front of the installation that holds back the second half of each download until it is
// released.
type halfProxy struct {
	server *httptest.Server
	free   chan struct{}
	once   sync.Once

	mu   sync.Mutex
	seen []string // digest and Range of each download
}

func newHalfProxy(t *testing.T, to string) *halfProxy {
	t.Helper()
	p := &halfProxy{free: make(chan struct{})}
	target, err := url.Parse(to)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Header.Del("Accept-Encoding") },
		FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: func(resp *http.Response) error {
			if strings.HasPrefix(resp.Request.URL.Path, "/api/blobs/") {
				resp.Body = &halfBody{ReadCloser: resp.Body, left: resp.ContentLength / 2, free: p.free, gone: resp.Request.Context().Done()}
				return nil
			}
			return p.own(resp, to)
		},
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if strings.HasPrefix(in.URL.Path, "/api/blobs/") {
			p.mu.Lock()
			p.seen = append(p.seen, in.URL.Query().Get("sha256")+" "+in.Header.Get("Range"))
			p.mu.Unlock()
		}
		proxy.ServeHTTP(out, in)
	}))
	t.Cleanup(p.server.Close)
	t.Cleanup(p.release)
	return p
}

// own replaces the address of the installation in a response by that of the proxy.
func (p *halfProxy) own(resp *http.Response, address string) error {
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	raw = bytes.ReplaceAll(raw, []byte(address), []byte(p.server.URL))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	resp.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	return nil
}

func (p *halfProxy) release() { p.once.Do(func() { close(p.free) }) }

// ranges returns the header Range of each download of the file with a digest.
func (p *halfProxy) ranges(digest string) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if rest, ok := strings.CutPrefix(s, digest+" "); ok {
			out = append(out, rest)
		}
	}
	return out
}

// halfBody is a body that waits before its second half.
type halfBody struct {
	io.ReadCloser

	left       int64
	free, gone <-chan struct{}
}

func (b *halfBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		select {
		case <-b.free:
		case <-b.gone:
			return 0, syscall.ECONNRESET
		}
		return b.ReadCloser.Read(p)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
