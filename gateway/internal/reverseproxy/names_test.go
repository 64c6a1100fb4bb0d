package reverseproxy_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/signalbox-dev/signalbox/gateway/internal/reverseproxy"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// named is the host name that the resolver of resolve knows.
const named = "replicas.test."

// resolve returns a resolver that knows the name named. The n-th lookup, from 0, has the addresses that the function of
// returns for n.
func resolve(t *testing.T, of func(n int) []string) *net.Resolver {
	t.Helper()
	var looked atomic.Int32
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		serving.Go(func() {
			defer func() { _ = server.Close() }()
			for respond(server, func() []string { return of(int(looked.Add(1)) - 1) }) == nil {
			}
		})
		return client, nil
	}}
}

// respond reads a question of DNS as it is sent over TCP, and responds with the addresses of IPv4.
func respond(c net.Conn, addresses func() []string) error {
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return err
	}
	raw := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(c, raw); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(raw); err != nil {
		return err
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	if q.Type == dnsmessage.TypeA {
		for _, a := range addresses() {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
			})
		}
	}
	packed, err := m.AppendPack(make([]byte, 2))
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint16(packed, uint16(len(packed)-2))
	_, err = c.Write(packed)
	return err
}

// replicasOn starts a replica at each address, all with the same port, which is returned. The function got returns how
// many requests each has received.
func replicasOn(t *testing.T, handle http.Handler, addresses ...string) (port string, got func() []int32) {
	t.Helper()
	counts := make([]atomic.Int32, len(addresses))
	port = "0"
	for i, address := range addresses {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, port))
		require.NoError(t, err)
		_, port, err = net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		back := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
			counts[i].Add(1)
			handle.ServeHTTP(w, in)
		}))
		require.NoError(t, back.Listener.Close())
		back.Listener = l
		back.Start()
		t.Cleanup(back.Close)
	}
	return port, func() (all []int32) {
		for i := range counts {
			all = append(all, counts[i].Load())
		}
		return all
	}
}

// refusing refuses the requests that arrive at one of the addresses, and returns the body of others.
func refusing(addresses ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		at, _ := in.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		for _, address := range addresses {
			if at.IP.String() == address {
				w.Header().Set(fault.HeaderRefused, "draining")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = io.Copy(w, in.Body)
	})
}

// The addresses of a name come in the same order each time, so only the exclusion leads to the last replica.
func TestRefusedRequestReachesAnotherReplica(t *testing.T) {
	t.Parallel()
	addresses := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	for name, c := range map[string]struct {
		refusing []string
		status   int
		got      []int32
	}{
		"one refuses":     {addresses[:1], 200, []int32{1, 1, 0}},
		"two refuse":      {addresses[:2], 200, []int32{1, 1, 1}},
		"the last one":    {addresses[1:], 200, []int32{1, 0, 0}},
		"all of them":     {addresses, 503, []int32{1, 1, 1}},
		"nothing refuses": {nil, 200, []int32{1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, got := replicasOn(t, refusing(c.refusing...), addresses...)
			r := newHarness(t, reverseproxy.Upstream{
				Service: "inference", SendOnce: true, Address: net.JoinHostPort(named, port),
				Resolver: resolve(t, func(int) []string { return addresses }),
			})
			resp, body := do(t, request(t, http.MethodPost, r.front.URL, strings.NewReader("x")))
			require.Equal(t, c.status, resp.StatusCode, r.log)
			require.Equal(t, c.got, got())
			if c.status == http.StatusOK {
				require.Equal(t, "x", body)
			}
		})
	}
}

// The first lookup leads to a replica that has ended. Nothing was sent to it, so the request goes to its successor.
func TestUnsentRequestSentAgain(t *testing.T) {
	t.Parallel()
	port, got := replicasOn(t, refusing(), "127.0.0.1")
	r := newHarness(t, reverseproxy.Upstream{
		Service: "inference", SendOnce: true, Address: net.JoinHostPort(named, port),
		Resolver: resolve(t, func(n int) []string { return []string{[]string{"127.0.0.9", "127.0.0.1"}[min(n, 1)]} }),
	})
	resp, body := do(t, request(t, http.MethodPost, r.front.URL, strings.NewReader("x")))
	require.Equal(t, http.StatusOK, resp.StatusCode, r.log)
	require.Equal(t, "x", body)
	require.Equal(t, []int32{1}, got())
}

// An engine may have begun a session when the connection of its handshake breaks.
func TestBrokenHandshakeSentOnce(t *testing.T) {
	t.Parallel()
	for name, earlier := range map[string]int{"first handshake": 0, "after a handshake that was refused": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, got := replicasOn(t, http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
				if in.URL.Path != "/refused" {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(http.StatusForbidden)
			}), "127.0.0.1")
			r := newHarness(t, reverseproxy.Upstream{Service: "inference", SendOnce: true, Address: net.JoinHostPort("127.0.0.1", port)})
			handshake := func(path string) response {
				req := request(t, http.MethodGet, r.front.URL+path, nil)
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "websocket")
				resp, _ := do(t, req)
				return resp
			}
			for range earlier {
				require.Equal(t, http.StatusForbidden, handshake("/refused").StatusCode)
			}
			resp := handshake("/")
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			require.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
			require.Equal(t, []int32{int32(earlier + 1)}, got())
		})
	}
}
