package executortest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// ControlPlane is the fake control plane of a test.
type ControlPlane struct {
	server *httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	failing map[string]int
	minted  map[executor.Key]int
	fetched map[string]int
	logs    map[string]*delivered
	refuse  int
}

// delivered holds the log requests of one writer, by sequence number.
type delivered struct {
	bodies map[string]string
	order  []string
	text   strings.Builder
	again  int
	differ bool
}

// NewControlPlane starts a control plane. It stops when the test ends.
func NewControlPlane(t *testing.T) *ControlPlane {
	t.Helper()
	p := &ControlPlane{
		objects: map[string][]byte{}, failing: map[string]int{}, minted: map[executor.Key]int{},
		fetched: map[string]int{}, logs: map[string]*delivered{},
	}
	p.listen()
	t.Cleanup(func() { p.server.Close() })
	return p
}

func (p *ControlPlane) listen() { p.server = httptest.NewServer(http.HandlerFunc(p.ingest)) }

// Move restarts the server at another address. The executor receives the new address only with the next
// list of works.
func (p *ControlPlane) Move() {
	old := p.server
	p.listen()
	old.CloseClientConnections()
	old.Close()
}

// Endpoint returns the base URL of the ingest routes.
func (p *ControlPlane) Endpoint() string { return p.server.URL + "/api/ingest" }

// Put stores an object and returns a reference to it.
func (p *ControlPlane) Put(path string, data []byte) executor.ObjectRef {
	sum := sha256.Sum256(data)
	ref := executor.ObjectRef{Path: path, URI: "blob://" + path, SizeBytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects[ref.URI] = data
	return ref
}

// FailDownloads makes the next n downloads of an object fail halfway.
func (p *ControlPlane) FailDownloads(ref executor.ObjectRef, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing[ref.URI] = n
}

// RefuseLogs makes the log route respond with 503 to the next n requests.
func (p *ControlPlane) RefuseLogs(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = n
}

// Download implements executor.Downloader.
func (p *ControlPlane) Download(_ context.Context, _ executor.Key, ref executor.ObjectRef) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	data, ok := p.objects[ref.URI]
	if !ok {
		return nil, errors.Join(executor.ErrPermanent, errors.New("no such object"))
	}
	p.fetched[ref.URI]++
	if p.failing[ref.URI] > 0 {
		p.failing[ref.URI]--
		data = data[:len(data)/2]
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Fetched returns the number of downloads of an object.
func (p *ControlPlane) Fetched(ref executor.ObjectRef) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched[ref.URI]
}

// MintIngestToken implements executor.TokenMinter.
func (p *ControlPlane) MintIngestToken(_ context.Context, key executor.Key) (executor.Token, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.minted[key]++
	return executor.Token{Secret: secret.New(tokenFor(key)), ExpiresAt: time.Unix(1<<32, 0)}, nil
}

// Minted returns the number of tokens minted for the execution.
func (p *ControlPlane) Minted(key executor.Key) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.minted[key]
}

func tokenFor(key executor.Key) string { return "token-of-" + key.String() }

// ingest accepts logs as the ingest service does. It stores each sequence number only once.
func (p *ControlPlane) ingest(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	writer, seq, ok := strings.Cut(r.Header.Get("Idempotency-Key"), ":")
	body, err := io.ReadAll(r.Body)
	if r.URL.Path != "/api/ingest/logs" || !ok || err != nil || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer token-of-") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if p.refuse > 0 {
		p.refuse--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	d := p.logs[writer]
	if d == nil {
		d = &delivered{bodies: map[string]string{}}
		p.logs[writer] = d
	}
	if before, known := d.bodies[seq]; known {
		d.again++
		d.differ = d.differ || before != string(body)
		return
	}
	var logs struct {
		RunID  string   `json:"run_id"`
		Chunks []string `json:"chunks"`
		EOF    bool     `json:"eof"`
	}
	if json.Unmarshal(body, &logs) != nil || logs.EOF || logs.RunID == "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	d.bodies[seq] = string(body)
	d.order = append(d.order, seq)
	for _, chunk := range logs.Chunks {
		d.text.WriteString(chunk)
	}
}

// Logs returns the text delivered for the execution, each range once. sound is true if the sequence numbers
// start at 1 without a gap and repeated requests had equal bodies.
func (p *ControlPlane) Logs(key executor.Key) (text string, sound bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.logs[writerOf(key)]
	if d == nil {
		return "", true
	}
	sound = !d.differ
	for i, seq := range d.order {
		sound = sound && seq == itoa(i+1)
	}
	return d.text.String(), sound
}
