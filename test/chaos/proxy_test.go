package chaos

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// uploadProxy is a proxy between the training and the gateway. It can block an upload after half of its bytes.
type uploadProxy struct {
	server *httptest.Server
	target atomic.Pointer[url.URL]

	mu   sync.Mutex
	next *blockedUpload
}

// blockedUpload is an upload that the proxy blocks.
type blockedUpload struct {
	path  string // part of the URL path of the upload
	whole int64  // length of the upload; set before the channel half is closed
	half  chan struct{}
	free  chan struct{}
	once  sync.Once
}

func (s *blockedUpload) release() { s.once.Do(func() { close(s.free) }) }

// newUploadProxy starts a proxy. It has no target until connect is called.
func newUploadProxy(t *testing.T) *uploadProxy {
	t.Helper()
	p := &uploadProxy{}
	proxy := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(p.target.Load()); r.Out.Host = r.In.Host },
		ErrorLog: log.New(io.Discard, "", 0), FlushInterval: -1,
		// If the target is down, close the connection to the client without a response, as a crashed server would.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if s := p.take(in); s != nil {
			in.Body = &blockingBody{from: in.Body, left: in.ContentLength / 2, upload: s}
		}
		proxy.ServeHTTP(out, in)
	}))
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.Start()
	t.Cleanup(p.server.Close)
	return p
}

// env returns the settings of an installation whose trainings send their requests through the proxy.
func (p *uploadProxy) env() map[string]string {
	env := manySlots()
	env["SERVICE_PUBLIC_URL"] = p.server.URL
	return env
}

// connect makes the address on which the installation listens the target of the proxy. signalboxd reports only its
// public address, which is that of the proxy, so connect reads the listen address from the command line of
// signalboxd.
func (p *uploadProxy) connect(t *testing.T, s *testenv.Installation) {
	t.Helper()
	address := s.URL
	if signalboxd := s.Processes["signalboxd"]; signalboxd != nil {
		words := strings.Fields(commandLine(signalboxd.PID()))
		address = "http://" + words[slices.Index(words, "--listen")+1]
	}
	require.NotEqual(t, p.server.URL, address)
	end, err := url.Parse(address)
	require.NoError(t, err)
	p.target.Store(end)
}

// blockNext makes the proxy block the next upload whose URL path contains the given text.
func (p *uploadProxy) blockNext(t *testing.T, path string) *blockedUpload {
	t.Helper()
	s := &blockedUpload{path: path, half: make(chan struct{}), free: make(chan struct{})}
	t.Cleanup(s.release)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = s
	return s
}

func (p *uploadProxy) take(r *http.Request) *blockedUpload {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.next
	if s == nil || r.Method != http.MethodPut || !strings.Contains(r.URL.Path, s.path) {
		return nil
	}
	p.next, s.whole = nil, r.ContentLength
	return s
}

// blockingBody is a request body that blocks after half of its bytes until it is released.
type blockingBody struct {
	from   io.ReadCloser
	left   int64
	upload *blockedUpload
}

func (b *blockingBody) Read(p []byte) (int, error) {
	if b.left > 0 {
		n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
		if b.left -= int64(n); b.left == 0 {
			close(b.upload.half)
		}
		return n, err
	}
	<-b.upload.free
	return b.from.Read(p)
}

func (b *blockingBody) Close() error { return b.from.Close() }

// awaitBlockedUpload waits until the proxy blocks the upload and the object store has stored a part of the upload.
// The function release lets the upload continue.
func awaitBlockedUpload(ctx context.Context, t *testing.T, s *testenv.Installation, u *blockedUpload) (release func()) {
	t.Helper()
	select {
	case <-u.half:
	case <-ctx.Done():
		require.FailNow(t, "no upload started", s.Tail())
	}
	s.Until(ctx, "the object store has stored a part of the upload", func() bool {
		parts, err := filepath.Glob(filepath.Join(objects(s), ".aside", "*", "*"))
		require.NoError(t, err)
		for _, part := range parts {
			if info, err := os.Stat(part); err == nil && info.Size() > 0 && info.Size() < u.whole {
				t.Logf("the upload is blocked at %d of %d bytes", info.Size(), u.whole)
				return true
			}
		}
		return false
	})
	return u.release
}

// objects returns the folder of the installation's object store.
func objects(s *testenv.Installation) string {
	if s.Processes["signalboxd"] != nil {
		return filepath.Join(s.Dir, "data", "objects")
	}
	return filepath.Join(s.Dir, "lib", "objects")
}
