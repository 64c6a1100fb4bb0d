package boot

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// relaying is a handler that also relays.
type relaying struct{ http.Handler }

func (relaying) Relay(httprelay.Conn, *httprelay.Request) httprelay.Result { return httprelay.Served }

// While load balancers look for another replica, a kept connection would still lead here.
func TestHolding_drainingReplicaEndsConnections(t *testing.T) {
	t.Parallel()
	e := envWithoutDatabase(t)
	h := e.holding(&plainService{newKeys(t)}, relaying{http.NotFoundHandler()})
	l := listener(t)
	w := h.worker("http", l, nil)
	stop := started(t, w, patience)
	closes := func() (status int, closes bool, refused string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
		require.NoError(t, err)
		var kept http.Transport
		defer kept.CloseIdleConnections()
		resp, err := kept.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode, resp.Close, resp.Header.Get(fault.HeaderRefused)
	}
	status, closed, _ := closes()
	require.Equal(t, []any{404, false, httprelay.Served}, []any{status, closed, h.Relay(nil, nil)})
	w.Drain()
	status, closed, refused := closes()
	require.Equal(t, []any{404, true, "", httprelay.Declined}, []any{status, closed, refused, h.Relay(nil, nil)})
	h.drain()
	status, closed, refused = closes()
	require.Equal(t, []any{503, true, "draining"}, []any{status, closed, refused})
	require.NoError(t, stop())
}

// What stops after the listeners must see the records of all requests, and have time left.
func TestHolding_stopWaitsForCutRequests(t *testing.T) {
	t.Parallel()
	e := envWithoutDatabase(t)
	e.Stop.StopGrace = time.Millisecond
	entered, ended := make(chan struct{}), atomic.Bool{}
	h := e.holding(&plainService{newKeys(t)}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		<-time.After(50 * time.Millisecond) // what a handler does after it was cut off
		ended.Store(true)
	}))
	first, second := listener(t), listener(t)
	workers := []process.Worker{h.worker("relayed", first, nil), h.worker("public", second, nil)}
	ctx, cancel := context.WithCancel(t.Context())
	host := &process.Host{Log: e.Log, Workers: workers, StopTimeout: patience, Ready: func(context.Context) error {
		go func() { _, _, _ = get(context.WithoutCancel(ctx), "http://"+first.Addr().String()) }()
		return nil
	}}
	go func() { <-entered; cancel() }()
	require.NoError(t, host.Run(ctx))
	require.True(t, ended.Load(), "the process stops its other parts while a request still runs")
}

func TestHolding_graceIsOneForAllListeners(t *testing.T) {
	t.Parallel()
	h := envWithoutDatabase(t).holding(&plainService{newKeys(t)}, http.NotFoundHandler())
	h.left(t.Context())
	ends := h.ends
	h.left(t.Context())
	require.Equal(t, ends, h.ends, "the grace period must not begin again")
}

func TestChecks_servesReplacesReady(t *testing.T) {
	t.Parallel()
	fails := func(context.Context) error { return context.Canceled }
	works := func(context.Context) error { return nil }
	all := checks([]process.Worker{{Name: "a", Ready: fails, Serves: works}, {Name: "b", Ready: works}, {Name: "c"}})
	require.Len(t, all, 2)
	require.NoError(t, all[0].Ready(t.Context()))
}
