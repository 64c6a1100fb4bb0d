package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// call sends a POST through a real server and reads the response.
func (r *harness) call(s *httptest.Server, bearer, body string) (status int, text string, err error) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, s.URL+"/inference/"+dep("a")+"/v1/x", strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := s.Client().Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

func TestFailedDialTriesNextReplica(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		play    func(c net.Conn, in *bufio.Reader) // runs the first replica; nil if its port is closed
		status  int
		outcome string
	}{
		"closed port":      {nil, 200, traffic.OK},
		"closes at call":   {func(_ net.Conn, in *bufio.Reader) { _, _ = http.ReadRequest(in) }, 502, traffic.EngineError},
		"invalid response": {replies("rubbish\r\n\r\n"), 502, traffic.EngineError},
		"responds 503":     {replies("HTTP/1.1 503 Full\r\nContent-Length: 0\r\n\r\n"), 503, traffic.EngineError},
		"responds 500":     {replies("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), 500, traffic.EngineError},
		"responds 200":     {replies(whole), 200, traffic.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok := mint(t, secret.KindDeployment)
			first := closedPort(t)
			if tc.play != nil {
				first = engine(t, tc.play)
			}
			r := newHarness(t, served("a", tok, first, engine(t, replies(whole))))
			s := r.serve()
			// Which replica is tried first is random. Repeat until both have been used.
			seen := map[string]bool{}
			calls := 0
			for len(seen) < 2 || calls < 4 {
				calls++
				status, _, err := r.call(s, tok.text, "{}")
				require.NoError(t, err)
				got := r.recorder.recorded(t, calls)[calls-1]
				require.Equal(t, int32(status), got.Status)
				if got.ReplicaID == "r1" {
					seen["r1"] = true
					require.Equal(t, 200, status)
					if tc.play == nil {
						seen["r0"] = true // the closed port is always skipped
					}
					continue
				}
				seen["r0"] = true
				require.Equal(t, tc.status, status)
				require.Equal(t, tc.outcome, got.Outcome)
			}
			require.True(t, r.idle(), "no replica may stay busy")
		})
	}
}

func TestAllReplicasUnreachable(t *testing.T) {
	t.Parallel()
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, closedPort(t), "ftp://x", closedPort(t)))
	status, body, err := r.call(r.serve(), tok.text, `{"model":"m"}`)
	require.NoError(t, err)
	require.Equal(t, 502, status)
	require.Contains(t, body, `"code":"engine_unreachable"`)
	got := r.recorder.recorded(t, 1)[0]
	require.Equal(t, traffic.Unreachable, got.Outcome)
	require.Equal(t, []any{dep("a"), "rev_1", int32(3), tok.served.GetId(), "n", "POST", "/v1/x"},
		[]any{got.DeploymentID, got.RevisionID, got.RevisionNumber, got.TokenID, got.TokenName, got.Method, got.Path})
	require.Nil(t, got.TTFT)
	require.True(t, r.idle())
}

func TestBodySizeLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size    int
		chunked bool
		status  int
	}{
		"empty":                {0, false, 200},
		"below readFirst":      {readFirst - 1, false, 200},
		"readFirst":            {readFirst, false, 200},
		"above readFirst":      {readFirst + 1, false, 200},
		"maximum":              {maxBody, false, 200},
		"above maximum":        {maxBody + 1, false, 413},
		"chunked maximum":      {maxBody, true, 200},
		"chunked above":        {maxBody + 1, true, 413},
		"chunked far above":    {8 * maxBody, true, 413},
		"chunked few bytes":    {3, true, 200},
		"chunked empty":        {0, true, 200},
		"chunked of readFirst": {readFirst, true, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			came := make(chan int64, 1)
			tok := mint(t, secret.KindDeployment)
			r := newHarness(t, served("a", tok, engine(t, func(c net.Conn, in *bufio.Reader) {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				n, err := io.Copy(io.Discard, req.Body)
				if err != nil {
					return // the request is truncated
				}
				came <- n
				_, _ = io.WriteString(c, whole)
			})))
			s := r.serve()
			var body io.Reader = strings.NewReader(strings.Repeat("x", tc.size))
			if tc.chunked {
				body = struct{ io.Reader }{body}
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/inference/"+dep("a")+"/v1/x", body)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+tok.text)
			resp, err := s.Client().Do(req)
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			require.Equal(t, tc.status, resp.StatusCode)
			if tc.status != 200 {
				require.Empty(t, came, "no engine may get a complete request")
				require.Empty(t, r.recorder.calls, "a refusal must not be recorded")
				require.Equal(t, map[string]int{"body_too_large": 1}, r.recorder.refusals)
				return
			}
			require.Equal(t, int64(tc.size), <-came)
			require.Equal(t, int64(tc.size), r.recorder.recorded(t, 1)[0].RequestBytes)
		})
	}
}

func TestRequestIDNotTakenFromCaller(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 8)
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, func(c net.Conn, in *bufio.Reader) {
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			got <- req.Header
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Request-Id: engines\r\nContent-Length: 2\r\n\r\nok")
		}
	})))
	s := r.serve()
	for _, forged := range []string{"", "req_forged", strings.Repeat("x", 500)} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/inference/"+dep("a")+"/v1/models", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+tok.text)
		req.Header.Set("X-Request-Id", forged)
		resp, err := s.Client().Do(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		own := resp.Header.Get("X-Request-Id")
		require.Regexp(t, `^req_[0-9a-z]{26}$`, own)
		require.Equal(t, []string{own}, (<-got)["X-Request-Id"], "the engine must get the same id")
	}
	ids := map[string]bool{}
	for _, c := range r.recorder.recorded(t, 3) {
		ids[c.RequestID] = true
	}
	require.Len(t, ids, 3)
}

func TestBodyBytesUnchanged(t *testing.T) {
	t.Parallel()
	all := make([]byte, 0, 512)
	for i := range 256 {
		all = append(all, byte(i), byte(255-i))
	}
	want := strings.Repeat(string(all), 200)
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, func(c net.Conn, in *bufio.Reader) {
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: x/y\r\nContent-Length: "+
				strconv.Itoa(len(body))+"\r\n\r\n"+string(body))
		}
	})))
	s := r.serve()
	s.Client().Transport.(*http.Transport).DisableCompression = true
	status, got, err := r.call(s, tok.text, want)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, want, got, "a body with Content-Encoding must not be decoded")
}

func TestCallerDisconnectFreesReplica(t *testing.T) {
	t.Parallel()
	came, gone := make(chan struct{}), make(chan struct{})
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, func(_ net.Conn, in *bufio.Reader) {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		close(came)
		_, _ = in.ReadByte()
		close(gone)
	})))
	s := r.serve()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/inference/"+dep("a")+"/v1/x", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+tok.text)
	failed := make(chan error, 1)
	go func() {
		resp, err := s.Client().Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-came
	leave()
	require.ErrorIs(t, <-failed, context.Canceled)
	<-gone
	got := r.recorder.recorded(t, 1)[0]
	require.Equal(t, []any{traffic.ClientClosed, int32(499), int64(0)}, []any{got.Outcome, got.Status, got.ResponseBytes})
	require.Eventually(t, r.idle, patience, 1)
}

func TestUpload_Read_limit(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]error{9: nil, 10: nil, 11: errTooLarge, 5000: errTooLarge} {
		u := &upload{caller: newCaller(t.Context(), httptest.NewRecorder(), patience), in: strings.NewReader(strings.Repeat("x", size)), left: 10}
		got, err := io.ReadAll(u)
		require.ErrorIs(t, err, want)
		if want == nil {
			require.Len(t, got, size)
			require.Equal(t, int64(size), u.read)
		}
		require.LessOrEqual(t, len(got), 10, "no byte above the limit may be relayed")
	}
	ended, cut := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cut(why)
	_, err := (&upload{caller: newCaller(ended, httptest.NewRecorder(), patience), in: strings.NewReader("x"), left: 10}).Read(make([]byte, 1))
	require.ErrorIs(t, err, why, "a call that has ended must not read its body")
	require.ErrorIs(t, newCaller(ended, httptest.NewRecorder(), patience).write([]byte("x"), false), errCaller)
}
