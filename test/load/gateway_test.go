// Package load compares the product with other servers on the same machine, in the same run. It reports
// ratios and the machine's load, because absolute times vary too much.
package load

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	clients = 16
	calls   = 2000
	rounds  = 5
)

// load is a number of equal requests.
type load struct {
	method, url, token, body string
	clients, calls           int
}

// throughput returns the requests per second of concurrent clients that together send all calls.
func throughput(ctx context.Context, b *testing.B, c *http.Client, l load) float64 {
	b.Helper()
	var wg sync.WaitGroup
	began := time.Now()
	for range l.clients {
		wg.Go(func() {
			for range l.calls / l.clients {
				req, err := http.NewRequestWithContext(ctx, l.method, l.url, strings.NewReader(l.body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+l.token)
				resp, err := c.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Errorf("%s: %s", l.url, resp.Status)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(l.calls) / time.Since(began).Seconds()
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkReads compares API reads with a minimal server of the standard library that returns the same
// number of bytes. The ratio shows the cost of a token check, a gRPC call and a database read.
func BenchmarkReads(b *testing.B) {
	ctx := b.Context()
	s := testenv.Single(b, testenv.Options{})
	l := s.Loop(ctx)
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	var login struct{ Token string }
	require.NoError(b, l.Client.Post(ctx, "/api/auth/login", map[string]string{"username": "admin", "password": s.Password.Reveal()}, &login))
	token := login.Token
	for _, path := range []string{"/api/version", "/api/auth/me", "/api/recipes"} {
		a, err := l.Client.Call(ctx, http.MethodGet, path, nil)
		require.NoError(b, err)
		bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(a.Body) }))
		b.Run(strings.TrimPrefix(path, "/api/"), func(b *testing.B) {
			var ours, theirs []float64
			for range rounds {
				l := load{method: http.MethodGet, url: s.URL + path, token: token, clients: clients, calls: calls}
				ours = append(ours, throughput(ctx, b, c, l))
				l.url = bare.URL
				theirs = append(theirs, throughput(ctx, b, c, l))
			}
			b.ReportMetric(median(ours)/median(theirs), "ratio")
			b.ReportMetric(median(ours), "req/s")
			b.ReportMetric(0, "ns/op")
		})
		bare.Close()
	}
	b.Logf("load %s", machineLoad(b))
}
