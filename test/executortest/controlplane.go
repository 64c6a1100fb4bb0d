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
	renewed map[string]int
	// together is the number of calls of DownloadTogether.
	together int
	noLeases bool
	// ended contains the lease tokens of executions that were given up.
	ended map[string]bool
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
		fetched: map[string]int{}, logs: map[string]*delivered{}, renewed: map[string]int{}, ended: map[string]bool{},
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

// Expect implements executor.Downloader.
func (p *ControlPlane) Expect(executor.Key, []executor.ObjectRef) (done func()) { return func() {} }

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

// DownloadTogether implements executor.Downloader.
func (p *ControlPlane) DownloadTogether(
	ctx context.Context, key executor.Key, refs []executor.ObjectRef, each func(executor.ObjectRef, io.Reader) error,
) error {
	p.mu.Lock()
	p.together++
	p.mu.Unlock()
	for _, ref := range refs {
		body, err := p.Download(ctx, key, ref)
		if err != nil {
			return err
		}
		if err := each(ref, body); err != nil {
			return err
		}
	}
	return nil
}

// Together returns the number of calls of DownloadTogether.
func (p *ControlPlane) Together() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.together
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
	return executor.Token{Secret: secret.New(tokenFor(key)), ExpiresAt: time.Unix(1<<32, 0), Lease: secret.New("lease-of-" + key.String())}, nil
}

// GrantLease implements executor.TokenMinter.
func (p *ControlPlane) GrantLease(_ context.Context, key executor.Key) (secret.String, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noLeases {
		return secret.String{}, errors.New("the control plane is away")
	}
	return secret.New("lease-of-" + key.String()), nil
}

// RefuseLeases sets whether GrantLease fails as if the control plane were not reachable.
func (p *ControlPlane) RefuseLeases(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noLeases = refuse
}

// GiveUp makes the control plane refuse the lease of the execution, as after the removal of its node.
func (p *ControlPlane) GiveUp(key executor.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended["lease-of-"+key.String()] = true
}

// Minted returns the number of tokens minted for the execution.
func (p *ControlPlane) Minted(key executor.Key) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.minted[key]
}

// Renewed returns how often the execution's lease was renewed at the current address of the server.
func (p *ControlPlane) Renewed(key executor.Key) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed[p.server.URL+" lease-of-"+key.String()]
}

// renew responds to the renewal of a lease.
func (p *ControlPlane) renew(w http.ResponseWriter, body []byte) {
	var renewal struct{ Token string }
	if json.Unmarshal(body, &renewal) != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if p.ended[renewal.Token] {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"detail": "the lease token is unknown or revoked", "code": "lease_token"}`)
		return
	}
	p.renewed[p.server.URL+" "+renewal.Token]++
	_, _ = io.WriteString(w, `{"renew_s": 1, "stop": false}`)
}

func tokenFor(key executor.Key) string { return "token-of-" + key.String() }

// ingest accepts logs as the ingest service does. It stores each sequence number only once.
func (p *ControlPlane) ingest(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	writer, seq, ok := strings.Cut(r.Header.Get("Idempotency-Key"), ":")
	body, err := io.ReadAll(r.Body)
	if r.URL.Path == "/api/cluster/leases/renew" && err == nil {
		p.renew(w, body)
		return
	}
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

// Logs returns the text delivered for the execution, which is that of its rank 0. A repeated request adds no text. The result sound is true if the
// sequence numbers start at 1 without a gap and each repeated request had the same body as before.
func (p *ControlPlane) Logs(key executor.Key) (text string, sound bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text, sound = p.logsOf(writerOf(key)); text != "" {
		return text, sound
	}
	return p.logsOf(writerOf(key) + "-r0")
}

// RankLogs is like Logs, for one rank of an attempt in a batch system.
func (p *ControlPlane) RankLogs(key executor.Key, rank int) (text string, sound bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logsOf(writerOf(key) + "-r" + itoa(rank))
}

// logsOf returns the text that a writer has delivered. The caller holds p.mu.
func (p *ControlPlane) logsOf(writer string) (text string, sound bool) {
	d := p.logs[writer]
	if d == nil {
		return "", true
	}
	sound = !d.differ
	for i, seq := range d.order {
		sound = sound && seq == itoa(i+1)
	}
	return d.text.String(), sound
}
