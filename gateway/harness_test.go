package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a gateway on a real listener. Its connections lead to gRPC servers of fake services on the in-memory
// network.
type harness struct {
	callRecorder
	t           *testing.T
	url         string
	gw          *gateway.Gateway
	log         *logBuffer
	credentials *credentials
	auth        *auth
	ids         *id.Source
	bus         *rpc.Bus
	verifier    *authn.Verifier
	stopServing func() error
}

// logBuffer is a log buffer that is safe for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *logBuffer) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// start returns a running harness. The function change, if not nil, may modify the gateway's settings and dependencies.
func start(t *testing.T, change func(*gateway.Config, *gateway.Deps)) *harness {
	t.Helper()
	clk := clock.Real()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	r := &harness{t: t, log: &logBuffer{}, ids: id.NewSource(clk, rand.Reader), bus: rpc.Memory(rpc.ClientOptions{Clock: clk})}
	newID := func() string { return r.ids.New(id.Request) }
	r.credentials = &credentials{callRecorder: &r.callRecorder, signer: authn.NewSigner(clk, newID, func() authn.SigningKey { return key })}
	r.auth = &auth{callRecorder: &r.callRecorder}
	r.verifier = authn.NewVerifier(clk, authn.StaticKeys(clk, key.Public()))
	observed, err := obs.Setup(t.Context(), obs.Config{Service: "test", LogLevel: "debug"}, r.log)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, observed.Shutdown(context.Background())) })

	cfg := gateway.Config{RequestTimeout: time.Minute}
	cfg.Listen.Addr = "127.0.0.1:0"
	deps := gateway.Deps{
		Conns:  gateway.Conns{Auth: r.serve("auth"), Jobs: r.serve("jobs"), Ingest: r.serve("ingest"), Registry: r.serve("registry"), Inference: r.serve("inference")},
		Ingest: echo("ingest"), Inference: echo("inference"), Blobs: echo("blobs"), Clock: clk, IDs: r.ids, Log: observed.Log,
		Tracer: observed.Tracer, Meter: observed.Meter, Version: gateway.Version{Server: "1.2.3", Core: "1.2"},
	}
	if change != nil {
		change(&cfg, &deps)
	}
	r.gw, err = gateway.New(t.Context(), cfg, deps)
	require.NoError(t, err)
	r.listen()
	return r
}

func (r *harness) listen() {
	r.t.Helper()
	l, err := r.gw.Listen(r.t.Context())
	require.NoError(r.t, err)
	r.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.gw.Run(ctx, l, time.Minute) }()
	r.stopServing = sync.OnceValue(func() error { cancel(); return <-done })
	r.t.Cleanup(func() { require.NoError(r.t, r.stopServing()) })
}

// serve runs the fake of a service and returns the gateway's connection to it.
func (r *harness) serve(service string) *grpc.ClientConn {
	r.t.Helper()
	server := rpc.NewServer(rpc.ServerOptions{
		Service: service, Log: slog.New(slog.NewTextHandler(r.log, nil)), Clock: clock.Real(), Verifier: r.verifier,
		NewRequestID: func() string { return r.ids.New(id.Request) },
	})
	r.register(service, server)
	l, err := r.bus.As(service).Listen(service)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	conn, err := r.bus.As("gateway").Dial(service)
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		require.NoError(r.t, conn.Close())
		cancel()
		require.NoError(r.t, <-done)
	})
	return conn
}

// echo returns a handler that responds with the request that it received.
func echo(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Handler", name)
		w.Header().Set("X-Remote", r.RemoteAddr)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+string(body))
	})
}

// response is an HTTP response with its body read.
type response struct {
	status int
	header http.Header
	body   string
}

func (a response) json(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &m), a.body)
	return m
}

// do sends a request. Headers are pairs of name and value; a repeated name adds a value.
func (r *harness) do(method, path, body string, headers ...string) response {
	r.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, reader)
	require.NoError(r.t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header[headers[i]] = append(req.Header[headers[i]], headers[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, resp.Body.Close()) }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return response{resp.StatusCode, resp.Header, string(data)}
}

// as returns an Authorization header with the bearer token, followed by the given further headers.
func as(token string, more ...string) []string {
	return append([]string{"Authorization", "Bearer " + token}, more...)
}

// dial opens a TCP connection, for requests that net/http's client would not send.
func (r *harness) dial() net.Conn {
	r.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
