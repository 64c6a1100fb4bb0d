package reverseproxy_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/reverseproxy"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// replicas starts a service and returns its address, and the addresses at which requests arrived. The handler gets the number
// of requests before this one.
func replicas(t *testing.T, handle func(w http.ResponseWriter, body string, before int32)) (address string, peers func() []string) {
	t.Helper()
	var got atomic.Int32
	where := make(chan string, 16)
	first, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	back := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		at, ok := in.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if ok {
			where <- at.String()
		}
		body, _ := io.ReadAll(in.Body)
		handle(w, string(body), got.Add(1)-1)
	}))
	require.NoError(t, back.Listener.Close())
	back.Listener = first
	back.Start()
	t.Cleanup(back.Close)
	return first.Addr().String(), func() (all []string) {
		for range int(got.Load()) {
			all = append(all, <-where)
		}
		return all
	}
}

func TestRefusedRequestSentAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusals, status int
		header           string
		body             io.Reader
		want             int
	}{
		"once":                        {1, 503, "draining", strings.NewReader("x"), 200},
		"twice":                       {2, 503, "lease_over", strings.NewReader("x"), 200},
		"always":                      {9, 503, "draining", strings.NewReader("x"), 503},
		"without a body":              {1, 503, "draining", nil, 200},
		"other failure":               {1, 503, "", strings.NewReader("x"), 503},
		"other status":                {1, 500, "draining", strings.NewReader("x"), 500},
		"streamed body":               {1, 503, "draining", struct{ io.Reader }{strings.NewReader("x")}, 503},
		"body of a megabyte and more": {1, 503, "draining", strings.NewReader(strings.Repeat("x", 1<<20+1)), 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, peers := replicas(t, func(w http.ResponseWriter, body string, before int32) {
				if int(before) < c.refusals {
					if c.header != "" {
						w.Header().Set(fault.HeaderRefused, c.header)
					}
					w.WriteHeader(c.status)
				}
				_, _ = io.WriteString(w, "got "+body)
			})
			r := newHarness(t, reverseproxy.Upstream{Service: "inference", SendOnce: true, Address: address})
			resp, body := do(t, request(t, http.MethodPost, r.front.URL, c.body))
			require.Equal(t, c.want, resp.StatusCode)
			require.Empty(t, resp.Header.Get(fault.HeaderRefused), "the header is for the gateway")
			if c.want == http.StatusOK {
				require.Equal(t, "got "+strings.Repeat("x", min(1, len(body)-len("got "))), body)
				require.Len(t, peers(), c.refusals+1)
			} else {
				require.Len(t, peers(), map[bool]int{true: 3, false: 1}[c.refusals == 9], "an unclear failure must not be repeated")
			}
		})
	}
}

// A connection that breaks before the response does not prove that nothing happened.
func TestBrokenRequestSentAgainIfItChangesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		body   io.Reader
		want   int
		sent   int
	}{
		"GET":                 {http.MethodGet, nil, 200, 2},
		"POST":                {http.MethodPost, strings.NewReader("x"), 503, 1},
		"POST without a body": {http.MethodPost, nil, 503, 1},
		"GET with a body":     {http.MethodGet, strings.NewReader("x"), 503, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, peers := replicas(t, func(_ http.ResponseWriter, _ string, before int32) {
				if before == 0 {
					panic(http.ErrAbortHandler)
				}
			})
			r := newHarness(t, reverseproxy.Upstream{Service: "inference", SendOnce: true, Address: address})
			resp, _ := do(t, request(t, c.method, r.front.URL, c.body))
			require.Equal(t, c.want, resp.StatusCode)
			require.Len(t, peers(), c.sent)
		})
	}
}
