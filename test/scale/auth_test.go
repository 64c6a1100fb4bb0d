package scale

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signIn signs in as admin from its own address and returns the status.
func (h *harness) signIn(ctx context.Context, n int) (status int, took time.Duration, err error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n))}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	body, err := json.Marshal(map[string]string{"username": "admin", "password": h.Password.Reveal()})
	if err != nil {
		return 0, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/api/auth/login", strings.NewReader(string(body)))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, time.Since(began), nil
}

// manySignIns measures the calls of a signed-in user while 100 others sign in at once.
func (h *harness) manySignIns(ctx context.Context, t *testing.T) {
	t.Helper()
	call := func() time.Duration {
		began := time.Now()
		a, err := h.loop.Client.Call(ctx, http.MethodGet, "/api/auth/me", nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status)
		return time.Since(began)
	}
	var quiet, busy []time.Duration
	for range 200 {
		quiet = append(quiet, call())
	}
	people := size(20, 100)
	var finished, refused atomic.Int64
	var slowest atomic.Int64
	var wg sync.WaitGroup
	for n := range people {
		wg.Go(func() {
			switch status, took, err := h.signIn(ctx, n); {
			case err != nil:
				t.Error(err)
			case status == http.StatusOK:
				finished.Add(1)
			case status == http.StatusServiceUnavailable:
				refused.Add(1)
				for old := slowest.Load(); int64(took) > old && !slowest.CompareAndSwap(old, int64(took)); old = slowest.Load() {
				}
			default:
				t.Errorf("sign-in: unexpected status %d", status)
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	for open := true; open; {
		busy = append(busy, call())
		select {
		case <-over:
			open = false
		default:
		}
	}
	require.EqualValues(t, people, finished.Load()+refused.Load())
	ratio := float64(median(busy)) / float64(median(quiet))
	report(t, ratio <= 3, "p50 of GET /api/auth/me: %s alone, %s while %d sign in at once, ratio %.2f (at most 3)", median(quiet), median(busy), people, ratio)
	report(t, finished.Load() >= 20 || !full(), "%d of %d sign-ins finished (at least 20), %d were refused with 503, the last after %s (1s)",
		finished.Load(), people, refused.Load(), time.Duration(slowest.Load()))
}
