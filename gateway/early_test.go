package gateway_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
)

// bodySize is more than the kernel buffers for a connection, so that a client which sends the whole body first is still
// sending when the response comes.
const bodySize = 9_000_000

// sendFirst sends the whole request before it reads the response, as Python's urllib does, and returns the status.
func (r *harness) sendFirst(method, target string, headers ...string) int {
	r.t.Helper()
	conn := r.dial()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", method, target, bodySize)
	for i := 0; i < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	_, err := io.WriteString(conn, head+"\r\n"+strings.Repeat(" ", bodySize))
	require.NoError(r.t, err, "%s %s: the client must be able to send the whole body", method, target)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(r.t, err, "%s %s", method, target)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(r.t, err, "%s %s", method, target)
	require.NoError(r.t, resp.Body.Close())
	return resp.StatusCode
}

// connections are the values of the header Connection that clients send: pooled clients none, urllib close.
func connections() [][]string { return [][]string{nil, {"Connection", "close"}} }

func TestRefusalsOfGatewayReachSendingClient(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for name, tc := range map[string]struct {
		method, target string
		headers        []string
		want           int
	}{
		"no credential":     {"POST", "/api/jobs", nil, 401},
		"no admin":          {"POST", "/api/admin/users", as(userToken), 403},
		"no route":          {"POST", "/api/nope", as(userToken), 404},
		"method":            {"PUT", "/api/jobs", as(userToken), 405},
		"too large":         {"POST", "/api/jobs", as(userToken), 413},
		"media type":        {"POST", "/api/jobs", as(userToken, "Content-Type", "text/plain"), 422},
		"query":             {"POST", "/api/jobs?x=1", as(userToken), 422},
		"unexpected body":   {"POST", "/api/jobs/job_1/stop", as(userToken), 413},
		"form":              {"POST", "/api/oauth/token", nil, 0},
		"bad path":          {"POST", "/inference/d/v1/%00", nil, 400},
		"wrong host":        {"POST", "http://evil.example/api/jobs", nil, 400},
		"raw without token": {"POST", "/api/playground/sessions/pg_01arz3ndektsv4rrffq69g5fav/targets/1/v1/x", nil, 401},
	} {
		for _, closing := range connections() {
			got := r.sendFirst(tc.method, tc.target, append(closing, tc.headers...)...)
			if tc.want == 0 {
				require.GreaterOrEqual(t, got, 400, name)
				continue
			}
			require.Equal(t, tc.want, got, name)
		}
	}
	r.gw.Drain()
	require.Equal(t, http.StatusServiceUnavailable, r.sendFirst("POST", "/api/jobs", as(userToken)...))
	require.Equal(t, http.StatusServiceUnavailable, r.sendFirst("POST", "/api/ingest/metrics"))
}

// refuseEarly responds with the status in the header X-Refuse after it has read a part of the body.
func refuseEarly(w http.ResponseWriter, r *http.Request) {
	part, _ := strconv.ParseInt(r.Header.Get("X-Read"), 10, 64)
	_, _ = io.CopyN(io.Discard, r.Body, part)
	status, _ := strconv.Atoi(r.Header.Get("X-Refuse"))
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

func TestRefusalsOfHandlersReachSendingClient(t *testing.T) {
	t.Parallel()
	addr, trust := startTLSServer(t, refuseEarly)
	for name, change := range map[string]func(*gateway.Config, *gateway.Deps){
		"own": func(_ *gateway.Config, d *gateway.Deps) {
			d.Ingest, d.Inference, d.Blobs = http.HandlerFunc(refuseEarly), http.HandlerFunc(refuseEarly), http.HandlerFunc(refuseEarly)
		},
		"relayed": func(c *gateway.Config, d *gateway.Deps) {
			c.IngestAddr, c.InferenceAddr, d.Ingest, d.Inference, d.Blobs = addr, addr, nil, nil, http.HandlerFunc(refuseEarly)
			d.RelayTLS = func(string) *tls.Config { return trust }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, change)
			for i, status := range []int{400, 401, 403, 404, 409, 411, 413, 415, 422, 429, 500, 503} {
				closing, part := connections()[i%2], strconv.Itoa(i%3*300_000)
				for method, target := range map[string]string{"POST": "/api/ingest/metrics", "PUT": "/api/blobs/x", "DELETE": "/inference/dep_1/v1/files"} {
					got := r.sendFirst(method, target, append(closing, "X-Refuse", strconv.Itoa(status), "X-Read", part)...)
					require.Equal(t, status, got, "%s %s", method, target)
				}
			}
		})
	}
}

// In HTTP/2 the server ends the stream after the response, without an error.
func TestRefusalOverHTTP2ReachesSendingClient(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	for target, want := range map[string]int{"/api/jobs": 401, "/api/nope": 404, "/inference/d/v1/%00": 400} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+target, strings.NewReader(strings.Repeat(" ", bodySize)))
		require.NoError(t, err)
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err, target)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err, target)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, target)
		require.Equal(t, 2, resp.ProtoMajor, target)
	}
}
