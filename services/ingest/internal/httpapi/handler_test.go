package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// harness is a handler whose dependencies are fakes that record their calls.
type harness struct {
	t       *testing.T
	clock   *clock.Fake
	handler *Handler
	token   string
	log     bytes.Buffer

	mu     sync.Mutex
	grant  ingesttoken.Grant
	items  []groupcommit.Item
	events []string
	claims []groupcommit.Key
	// fail holds the error of each fake call, by the name of the call, such as "grant", "store", "claim" or "sign".
	fail   map[string]error
	stored bool // result of Claim
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	token, err := secret.Mint(rand.Reader, secret.KindIngest)
	require.NoError(t, err)
	p := &harness{t: t, clock: clk, token: token.Reveal(), fail: map[string]error{}}
	p.grant = ingesttoken.Grant{Attempt: 2, Current: true}
	p.grant.Owner.RunID = "run_1"
	p.handler = &Handler{
		Grants: ingesttoken.NewChecker(clk, p.resolve), Store: p, Marks: p, Keys: metric.NewKeys(), Registrar: &artifact.Registrar{Blobs: p, Holds: p},
		Artifacts: p, Lifecycle: p.lifecycle, Classify: func(err error) error { return err },
		Points: &nothing{}, HParams: &noHParams{},
		IDs: id.NewSource(clk, rand.Reader), Log: slog.New(slog.NewTextHandler(&p.log, nil)),
	}
	return p
}

func (p *harness) failing(call string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fail[call]
}

func (p *harness) resolve(context.Context, []byte) (*ingesttoken.Grant, error) {
	if err := p.failing("grant"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.grant
	return &g, nil
}

func (p *harness) Store(_ context.Context, item groupcommit.Item) (bool, error) {
	err := p.failing("store")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items = append(p.items, item)
	if item.Fence != nil && !item.Unfenced {
		err = item.Fence
	}
	return false, err
}

// nothing has no points, and noHParams no hyperparameters.
type (
	nothing   struct{}
	noHParams struct{}
)

func (*nothing) Has(context.Context, string, int32, *decode.Columns) (bool, error) { return false, nil }

func (*noHParams) Has(context.Context, string, int32, []report.Param) (bool, error) {
	return false, nil
}

func (p *harness) Claim(_ context.Context, item *groupcommit.Item) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(p.t, "lifecycle", item.Stream)
	require.NotZero(p.t, item.Digest)
	p.claims = append(p.claims, item.Key)
	return p.stored, p.fail["claim"]
}

func (p *harness) Watermark(context.Context, string) (map[string]map[string]int64, error) {
	return map[string]map[string]int64{"logs": {"w": 3}}, p.failing("watermark")
}

func (p *harness) Find(_ context.Context, a *artifact.Artifact) (*artifact.Artifact, error) {
	return a, p.failing("find")
}

func (p *harness) Stat(context.Context, string) (blob.Info, error) {
	return blob.Info{}, p.failing("stat")
}

func (p *harness) SignPut(_ context.Context, key string, o blob.SignOptions) (blob.Signed, error) {
	return blob.Signed{URL: "http://blobs/" + key, Method: http.MethodPut, ExpiresAt: p.clock.Now()}, p.failing("sign")
}

func (p *harness) Extend(context.Context, string) (bool, error) { return true, p.failing("extend") }

func (p *harness) Hold(_ context.Context, _, _, given string, _ int64) (string, error) {
	return given, p.failing("hold")
}

func (p *harness) lifecycle(_ context.Context, _ *ingesttoken.Grant, event *report.Lifecycle) error {
	err := p.failing("lifecycle")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event.Event)
	return err
}

// send creates a request with the run's token, applies each change to it, and sends it.
func (p *harness) send(method, path, body string, change ...func(r *http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(p.t.Context(), method, "/api/ingest/"+path, strings.NewReader(body))
	r.Header.Set("X-Service-Token", p.token)
	for _, fn := range change {
		fn(r)
	}
	rec := httptest.NewRecorder()
	p.handler.ServeHTTP(rec, r)
	return rec
}

func header(name, value string) func(r *http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// unreadableBody is a body that makes the test fail if it is read.
type unreadableBody struct{ t *testing.T }

func (u unreadableBody) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestHandler_checksTokenBeforeBody(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	never := func(r *http.Request) { r.Body = io.NopCloser(unreadableBody{t}) }
	for name, c := range map[string]struct {
		path   string
		change func(r *http.Request)
		want   int
	}{
		"no token":     {"logs", func(r *http.Request) { r.Header.Del("X-Service-Token") }, 401},
		"bad token":    {"logs", header("X-Service-Token", "ing_x"), 401},
		"two tokens":   {"logs", header("Authorization", "Bearer other"), 401},
		"bad key":      {"logs", header("Idempotency-Key", "w"), 422},
		"bad path":     {"nothing", func(*http.Request) {}, 404},
		"bad method":   {"watermark", func(*http.Request) {}, 405},
		"too large":    {"logs", func(r *http.Request) { r.ContentLength = usual + 1 }, 413},
		"encoded body": {"logs", header("Content-Encoding", "br"), 422},
		"form":         {"logs", header("Content-Type", "application/x-www-form-urlencoded"), 422},
	} {
		rec := p.send(http.MethodPost, c.path, "{}", never, c.change)
		require.Equal(t, c.want, rec.Code, "%s: %s", name, rec.Body)
		var body map[string]any
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body), name)
		require.Contains(t, body, "detail", name)
	}
	require.Empty(t, p.items)
}

func TestHandler_rejectsOtherRuns(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	bodies := map[string]string{
		"lifecycle": `"event":"running","ts":"2026-11-21T09:00:00Z"`, "metrics": `"points":[]`, "hparams": `"params":{}`, "validation": `"step":1,"samples":[]`,
		"logs": `"chunks":[]`, "artifact": `"kind":"checkpoint","path":"/p","format":"f"`, "hardware": `"points":[]`, "environment": `"os":"l"`,
		"environment/nodes": `"nodes":[]`, "benchmark": `"name":"n","metric":"m","value":1`,
	}
	for path, rest := range bodies {
		for _, other := range []string{"run_2", "run_1 ", "RUN_1", "run_11", "run_"} {
			rec := p.send(http.MethodPost, path, `{"run_id":"`+other+`",`+rest+`}`, header("Idempotency-Key", "w:1"))
			require.Equal(t, http.StatusForbidden, rec.Code, "%s %s: %s", path, other, rec.Body)
			require.Contains(t, rec.Body.String(), `"code":"run_mismatch"`)
		}
	}
	sum := strings.Repeat("a", 64)
	for _, path := range []string{"watermark?run_id=run_2", "artifact/upload-url?run_id=run_2&kind=checkpoint&path=p&size_bytes=1&sha256=" + sum} {
		require.Equal(t, http.StatusForbidden, p.send(http.MethodGet, path, "").Code, path)
	}
	require.Empty(t, p.items)
	require.Empty(t, p.events)
	require.Empty(t, p.claims, "no number is claimed")
	for path, rest := range bodies {
		rec := p.send(http.MethodPost, path, `{"run_id":"run_1",`+rest+`}`, header("Idempotency-Key", "w:1"))
		require.Equal(t, http.StatusOK, rec.Code, "%s: %s", path, rec.Body)
	}
	require.Len(t, p.items, len(bodies))
	for _, item := range p.items {
		require.Equal(t, groupcommit.Key{Writer: "w", Seq: 1}, item.Key)
		require.Equal(t, int32(2), item.Attempt, "the attempt comes from the token")
		require.NotZero(t, item.Digest)
		require.Equal(t, item.Stream == "lifecycle", item.Unfenced, item.Stream)
	}
}

func TestHandler_endedAttemptReportsLifecycleOnly(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		current bool
		ended   time.Duration // how long ago the run ended, or 0 if it has not ended
		code    string
	}{
		"running": {true, 0, ""}, "just ended": {true, time.Microsecond, "run_closed"}, "ended long ago": {true, time.Hour, "run_closed"},
		"replaced": {false, 0, "attempt_replaced"}, "replaced and ended": {false, time.Minute, "attempt_replaced"},
	} {
		p := newHarness(t)
		p.grant.Current = c.current
		if c.ended > 0 {
			at := started.Add(-c.ended)
			p.grant.EndedAt = &at
		}
		for path, body := range map[string]string{"logs": `"chunks":["late"]`, "metrics": `"points":[]`, "artifact": `"kind":"checkpoint","path":"/p","format":"f"`} {
			rec := p.send(http.MethodPost, path, `{"run_id":"run_1",`+body+`}`)
			require.Equal(t, c.code == "", rec.Code == http.StatusOK, "%s, %s: %s", name, path, rec.Body)
			if c.code != "" {
				require.Equal(t, http.StatusConflict, rec.Code)
				require.Contains(t, rec.Body.String(), `"code":"`+c.code+`"`)
			}
		}
		rec := p.send(http.MethodPost, "lifecycle", `{"run_id":"run_1","event":"failed","ts":"2026-11-21T09:00:00Z"}`)
		require.Equal(t, http.StatusOK, rec.Code, "%s: only the jobs service decides whether an event is valid", name)
		rec = p.send(http.MethodPost, "lifecycle", `{"run_id":"run_1","rank":1,"event":"failed","ts":"2026-11-21T09:00:00Z"}`)
		require.Equal(t, http.StatusOK, rec.Code, "%s: events of other ranks are only recorded", name)
		require.Equal(t, []string{"failed"}, p.events)
		require.Equal(t, http.StatusOK, p.send(http.MethodGet, "watermark?run_id=run_1", "").Code, "%s: the watermark stays readable", name)
	}
}

func TestHandler_lifecycle_sendsEventBeforeStoring(t *testing.T) {
	t.Parallel()
	event := `{"run_id":"run_1","event":"running","ts":"2026-11-21T09:00:00Z"}`
	cases := map[string]struct {
		key            string
		set            func(p *harness)
		status         int
		events, stored int
	}{
		"without a number":              {"", func(*harness) {}, 200, 1, 1},
		"with a number":                 {"w:1", func(*harness) {}, 200, 1, 1},
		"stored before":                 {"w:1", func(p *harness) { p.stored = true }, 200, 0, 0},
		"rejected by jobs":              {"w:1", func(p *harness) { p.fail["lifecycle"] = fault.New(fault.Conflict, "", "over") }, 409, 1, 0},
		"jobs unavailable":              {"w:1", func(p *harness) { p.fail["lifecycle"] = fault.New(fault.Unavailable, "", "away") }, 503, 1, 0},
		"reused number":                 {"w:1", func(p *harness) { p.fail["claim"] = fault.New(fault.Conflict, idempotency.CodeKey, "used") }, 409, 0, 0},
		"claim fails":                   {"w:1", func(p *harness) { p.fail["claim"] = fault.New(fault.Unavailable, "", "no database") }, 503, 0, 0},
		"store fails, without a number": {"", func(p *harness) { p.fail["store"] = fault.New(fault.Unavailable, "", "no database") }, 503, 1, 1},
		"store fails, with a number":    {"w:1", func(p *harness) { p.fail["store"] = fault.New(fault.Unavailable, "", "no database") }, 503, 1, 1},
	}
	for name, c := range cases {
		p := newHarness(t)
		c.set(p)
		rec := p.send(http.MethodPost, "lifecycle", event, func(r *http.Request) {
			if c.key != "" {
				r.Header.Set("Idempotency-Key", c.key)
			}
		})
		require.Equal(t, c.status, rec.Code, "%s: %s", name, rec.Body)
		require.Len(t, p.events, c.events, name)
		require.Len(t, p.items, c.stored, name)
	}
}

func TestHandler_errorsHideTheirCause(t *testing.T) {
	t.Parallel()
	secretCause := errors.New("password=hunter2 at 10.0.0.1")
	for name, c := range map[string]struct {
		err    error
		status int
		logged bool
	}{
		"unclassified": {secretCause, 500, true},
		"dependency":   {fault.New(fault.Dependency, "", "the object store is unavailable").Wrap(secretCause), 502, true},
		"unavailable":  {fault.New(fault.Unavailable, "", "busy").Wrap(secretCause), 503, false},
		"conflict":     {fault.New(fault.Conflict, "x", "no").Wrap(secretCause), 409, false},
		"canceled":     {fault.FromContext(context.Canceled), 0, false},
	} {
		p := newHarness(t)
		p.fail["store"] = c.err
		rec := p.send(http.MethodPost, "metrics", `{"run_id":"run_1","points":[]}`)
		if c.status != 0 {
			require.Equal(t, c.status, rec.Code, name)
		}
		require.NotContains(t, rec.Body.String(), "hunter2", name)
		require.Equal(t, c.logged, strings.Contains(p.log.String(), "ingest request failed"), name)
		require.NotEmpty(t, rec.Header().Get(fault.HeaderRequestID), name)
		require.Zero(t, p.handler.bodies.total, "%s: no memory remains reserved", name)
	}
}

func TestHandler_panicReturns500(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	p.handler.Classify = func(error) error { panic("boom") }
	p.fail["store"] = errors.New("x")
	rec := p.send(http.MethodPost, "logs", `{"run_id":"run_1","chunks":[]}`)
	require.Equal(t, http.StatusInternalServerError, rec.Code)
	require.NotContains(t, rec.Body.String(), "boom")
	require.Contains(t, p.log.String(), "boom")
	require.Zero(t, p.handler.bodies.total)
	delete(p.fail, "store")
	require.Equal(t, http.StatusOK, p.send(http.MethodPost, "logs", `{"run_id":"run_1","chunks":[]}`).Code)
}
