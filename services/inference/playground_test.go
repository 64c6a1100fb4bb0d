package inference_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

const session = "pg_01k00000000000000000000001"

// sessions is a fake registry with one playground session.
type sessions struct {
	registrypeerv1.UnimplementedPlaygroundPeerServiceServer

	mu      sync.Mutex
	signing authn.SigningKey
	engine  *engine
	until   time.Time
	over    error
}

func (s *sessions) key(t *testing.T) authn.SigningKey {
	t.Helper()
	if s.signing.Private == nil {
		key, err := authn.NewSigningKey(rand.Reader)
		require.NoError(t, err)
		s.signing = key
	}
	return s.signing
}

func (s *sessions) AdmitCall(ctx context.Context, in *registrypeerv1.AdmitCallRequest) (*registrypeerv1.AdmitCallResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	switch {
	case in.GetPlaygroundId() != session:
		return nil, fault.Absentf("playground session", in.GetPlaygroundId())
	case s.over != nil:
		return nil, s.over
	}
	return &registrypeerv1.AdmitCallResponse{
		Replica: &registrypeerv1.ServedReplica{Id: "rep_1", Address: "http://" + s.engine.addr, ApiKey: "the-engines-own-key"}, ExpiresAt: timestamppb.New(s.until),
		UserId: c.Subject, Username: "ann",
	}, nil
}

func (s *sessions) KeepSession(context.Context, *registrypeerv1.KeepSessionRequest) (*registrypeerv1.KeepSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &registrypeerv1.KeepSessionResponse{ExpiresAt: timestamppb.New(s.until)}, s.over
}

func (s *sessions) SeeSession(ctx context.Context, in *registrypeerv1.SeeSessionRequest) (*registrypeerv1.SeeSessionResponse, error) {
	if _, err := authn.CallerOf(ctx).RequireUser(); err != nil || in.GetPlaygroundId() != session {
		return nil, fault.Absentf("playground session", in.GetPlaygroundId())
	}
	return &registrypeerv1.SeeSessionResponse{}, nil
}

// openSession opens a session on an engine and returns the signed identity of its user.
func (r *harness) openSession(e *engine, life time.Duration) (caller string) {
	r.t.Helper()
	r.sessions.mu.Lock()
	defer r.sessions.mu.Unlock()
	r.sessions.engine, r.sessions.until = e, time.Now().Add(life)
	signer := authn.NewSigner(clock.Real(), func() string { return "jti_" + rand.Text() }, func() authn.SigningKey { return r.sessions.key(r.t) })
	token, _, err := signer.Sign(&authn.Caller{Kind: authn.KindUser, Subject: "usr_01k00000000000000000000001", Username: "ann", Role: authn.RoleOperator})
	require.NoError(r.t, err)
	return token
}

// callTarget calls a target of the session.
func (r *harness) callTarget(caller, method, rest, body string) reply {
	r.t.Helper()
	req := r.request(method, "/api/playground/sessions/"+session+"/targets/"+rest, "", body)
	if caller != "" {
		req.Header.Set("X-Service-Caller", caller)
	}
	return r.send(req)
}

// turns waits for n turns in the transcript and returns them.
func (r *harness) turns(n int) (out []string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		out = nil
		rows, err := r.pool.Query(context.WithoutCancel(r.t.Context()), `SELECT username || ' ' || target || ' ' || method || ' ' || path || ' ' || status || ' ' ||
			outcome || ' ' || request || ' ' || response FROM playground_turn ORDER BY at, id`)
		if err != nil {
			return false
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if rows.Scan(&line) != nil {
				return false
			}
			out = append(out, line)
		}
		return len(out) >= n
	}, limit, 10*time.Millisecond)
	return out
}

func TestPlaygroundCall(t *testing.T) {
	t.Parallel()
	r := open(t)
	e := newEngine(t, always(httpResponse("200 OK", "application/json", okJSON)))
	caller := r.openSession(e, time.Hour)
	resp := r.callTarget(caller, http.MethodPost, "2/v1/chat/completions?a=1", `{"model":"m"}`)
	require.Equal(t, okJSON, text(t, resp))
	require.Regexp(t, "^req_", resp.Header.Get("X-Request-Id"))
	head := e.seen()[0]
	require.True(t, strings.HasPrefix(head, "POST /v1/chat/completions?a=1 HTTP/1.1\r\n"), head)
	require.Contains(t, head, "Authorization: Bearer the-engines-own-key")
	require.NotContains(t, head, caller, "the identity of the user must not reach an engine")
	require.Equal(t, []string{"ann 2 POST /v1/chat/completions 200 ok " + `{"model":"m"} ` + okJSON}, r.turns(1))
	require.Empty(t, r.now(), "playground calls must not appear in the record of deployments")
}

func TestPlaygroundCallRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	e := newEngine(t, always(httpResponse("200 OK", "", "never")))
	caller := r.openSession(e, time.Hour)
	for name, given := range map[string]string{"missing": "", "malformed": "x.y.z", "altered": caller[:len(caller)-2] + "xx"} {
		resp := r.callTarget(given, http.MethodGet, "1/v1/models", "")
		body := text(t, resp)
		require.NotEqual(t, 200, resp.StatusCode, name)
		require.GreaterOrEqual(t, resp.StatusCode, 400, "%s: %s", name, body)
		require.Less(t, resp.StatusCode, 500, "%s: %s", name, body)
	}
	for rest, want := range map[string]int{
		"0/v1/models": 422, "01/v1/models": 422, "x/v1/models": 422, "1/v2/models": 404, "/v1/models": 404, "1": 404, "1/v1/%2e%2e/metrics": 400, "1/v1/a%5cb": 400, "99999999999/v1/x": 422,
	} {
		resp := r.callTarget(caller, http.MethodGet, rest, "")
		_ = text(t, resp)
		require.Equal(t, want, resp.StatusCode, rest)
	}
	resp := r.callTarget(caller, http.MethodPost, "1/v1/x", strings.Repeat("x", 3<<20))
	refused(t, resp, 413, "body_too_large")
	require.Empty(t, e.seen())
}

func TestPlaygroundSessionEndCutsStreams(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r := open(t)
	caller := r.openSession(newEngine(t, s.play), time.Second)
	resp := r.callTarget(caller, http.MethodPost, "1/v1/chat/completions", `{"stream":true}`)
	in := bufio.NewReader(resp.Body)
	s.words <- "before"
	require.Equal(t, "before", event(t, in))
	r.sessions.mu.Lock()
	r.sessions.over = fault.New(fault.Conflict, "session_over", "it expired at noon")
	r.sessions.mu.Unlock()
	rest, err := io.ReadAll(in)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a cut stream must not end cleanly")
	require.Equal(t, `data: {"error":{"message":"it expired at noon","type":"server_error","code":"session_over"}}`, strings.TrimSpace(string(rest)))
	_ = resp.Body.Close()
	require.Contains(t, r.turns(1)[0], " 200 session_over ")
	refused(t, r.callTarget(caller, http.MethodGet, "1/v1/models", ""), 409, "session_over")
}

func TestExtendedPlaygroundSessionContinues(t *testing.T) {
	t.Parallel()
	s := newWordStream()
	r := open(t)
	caller := r.openSession(newEngine(t, s.play), 500*time.Millisecond)
	resp := r.callTarget(caller, http.MethodPost, "1/v1/chat/completions", `{"stream":true}`)
	r.sessions.mu.Lock()
	until := r.sessions.until
	r.sessions.until = until.Add(time.Hour)
	r.sessions.mu.Unlock()
	require.Eventually(t, func() bool { return time.Now().After(until.Add(200 * time.Millisecond)) }, limit, 10*time.Millisecond)
	in := bufio.NewReader(resp.Body)
	s.words <- "after"
	require.Equal(t, "after", event(t, in))
	close(s.words)
	_, err := in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	_ = resp.Body.Close()
}

func TestPlaygroundTranscript(t *testing.T) {
	t.Parallel()
	r := open(t)
	caller := r.openSession(newEngine(t, always(httpResponse("200 OK", "text/plain", strings.Repeat("ü", 40<<10)))), time.Hour)
	for range 3 {
		_ = text(t, r.callTarget(caller, http.MethodPost, "1/v1/x", "\xff\x00ask"))
	}
	r.turns(3)
	r.serve("inference", func(s *rpc.Server) { r.svc.Register(s) }, r.sessions.key(t).Public())
	conn, err := r.bus.As("gateway").Dial("inference")
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	list := func(id string, limit int32) (*inferencev1.ListTurnsResponse, error) {
		ctx := authn.WithToken(t.Context(), caller, time.Now().Add(time.Minute))
		return inferencev1.NewTranscriptServiceClient(conn).ListTurns(ctx, &inferencev1.ListTurnsRequest{PlaygroundId: id, Limit: &limit})
	}
	got, err := list(session, 2)
	require.NoError(t, err)
	require.Len(t, got.GetTurns(), 2)
	turn := got.GetTurns()[0]
	require.Equal(t, "\uFFFD\uFFFDask", turn.GetRequest())
	require.Len(t, turn.GetResponse(), 64<<10, "the response must be cut to the maximum size of a stored body")
	require.True(t, turn.GetResponseCut())
	require.False(t, turn.GetRequestCut())
	_, err = list("pg_01k00000000000000000000009", 1)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}
