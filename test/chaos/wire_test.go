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

// wire is a proxy between the training and the gateway. It can block an upload after half of its bytes.
type wire struct {
	server *httptest.Server
	target atomic.Pointer[url.URL]

	mu   sync.Mutex
	next *stall
}

// stall is an upload that the wire blocks.
type stall struct {
	path  string // part of the URL path of the upload
	whole int64  // length of the upload; may be read after half is closed
	half  chan struct{}
	free  chan struct{}
	once  sync.Once
}

func (s *stall) release() { s.once.Do(func() { close(s.free) }) }

// newWire starts a wire. connect sets its target.
func newWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{}
	proxy := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(w.target.Load()); r.Out.Host = r.In.Host },
		ErrorLog: log.New(io.Discard, "", 0), FlushInterval: -1,
		// If the target is down, close the connection to the client without a response, as a crashed server would.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if s := w.take(in); s != nil {
			in.Body = &halved{from: in.Body, left: in.ContentLength / 2, stall: s}
		}
		proxy.ServeHTTP(out, in)
	}))
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.server.Start()
	t.Cleanup(w.server.Close)
	return w
}

// env returns settings of an installation whose trainings send their requests through the wire.
func (w *wire) env() map[string]string {
	env := roomy()
	env["SERVICE_PUBLIC_URL"] = w.server.URL
	return env
}

// connect sets the target of the wire to the address on which the installation listens. signalboxd reports
// only its public address, so connect reads the listen address from its command line.
func (w *wire) connect(t *testing.T, s *testenv.Stand) {
	t.Helper()
	address := s.URL
	if p := s.Processes["signalboxd"]; p != nil {
		words := strings.Fields(commandLine(p.PID()))
		address = "http://" + words[slices.Index(words, "--listen")+1]
	}
	require.NotEqual(t, w.server.URL, address)
	end, err := url.Parse(address)
	require.NoError(t, err)
	w.target.Store(end)
}

// arm makes the wire block the next upload whose URL path contains path.
func (w *wire) arm(t *testing.T, path string) *stall {
	t.Helper()
	s := &stall{path: path, half: make(chan struct{}), free: make(chan struct{})}
	t.Cleanup(s.release)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = s
	return s
}

func (w *wire) take(r *http.Request) *stall {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.next
	if s == nil || r.Method != http.MethodPut || !strings.Contains(r.URL.Path, s.path) {
		return nil
	}
	w.next, s.whole = nil, r.ContentLength
	return s
}

// halved is a request body that blocks after half of its bytes until it is released.
type halved struct {
	from  io.ReadCloser
	left  int64
	stall *stall
}

func (h *halved) Read(p []byte) (int, error) {
	if h.left > 0 {
		n, err := h.from.Read(p[:min(int64(len(p)), h.left)])
		if h.left -= int64(n); h.left == 0 {
			close(h.stall.half)
		}
		return n, err
	}
	<-h.stall.free
	return h.from.Read(p)
}

func (h *halved) Close() error { return h.from.Close() }

// holdUpload waits until the wire blocks the upload and the object store has received a part of it.
func holdUpload(ctx context.Context, t *testing.T, s *testenv.Stand, held *stall) (release func()) {
	t.Helper()
	select {
	case <-held.half:
	case <-ctx.Done():
		require.FailNow(t, "no upload started", s.Tail())
	}
	s.Until(ctx, "the store has a part of the upload", func() bool {
		parts, err := filepath.Glob(filepath.Join(objects(s), ".aside", "*", "*"))
		require.NoError(t, err)
		for _, part := range parts {
			if info, err := os.Stat(part); err == nil && info.Size() > 0 && info.Size() < held.whole {
				t.Logf("the upload is blocked at %d of %d bytes", info.Size(), held.whole)
				return true
			}
		}
		return false
	})
	return held.release
}

// objects returns the folder of the installation's object store.
func objects(s *testenv.Stand) string {
	if s.Processes["signalboxd"] != nil {
		return filepath.Join(s.Dir, "data", "objects")
	}
	return filepath.Join(s.Dir, "lib", "objects")
}
