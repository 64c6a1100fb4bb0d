package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

func TestNotifier_run_coalescesRuns(t *testing.T) {
	t.Parallel()
	sent, gate := make(chan string), make(chan error)
	n := newNotifier(nil, clock.Real())
	n.send = func(_ context.Context, payload string) error { sent <- payload; return <-gate }
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.run(ctx) })
	n.add([]string{"run_1"})
	require.Equal(t, "run_1", <-sent, "an idle notifier sends at once")
	for range 50 {
		n.add([]string{"run_3", "run_2"})
	}
	n.add([]string{"run_1"})
	gate <- nil
	require.Equal(t, "run_1,run_2,run_3", <-sent, "one notification announces all commits made while the previous one was sent")
	n.add([]string{"run_4"})
	gate <- errors.New("the connection is lost")
	require.Equal(t, "run_4", <-sent, "a failure does not end the notifier")
	n.add([]string{"run_5"})
	stop()
	gate <- nil
	require.Equal(t, "run_5", <-sent, "queued runs are sent at the end")
	gate <- nil
	running.Wait()
}

func TestNotifier_run_restsBetweenNotifications(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC))
	sent := make(chan string, 10)
	n := newNotifier(nil, clk)
	n.send = func(_ context.Context, payload string) error { sent <- payload; return nil }
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { n.run(ctx) })
	n.add([]string{"run_1"})
	require.Equal(t, "run_1", <-sent)
	for range 3 {
		require.NoError(t, clk.Await(ctx, 1), "the notifier rests")
		n.add([]string{"run_2"})
		n.add([]string{"run_3"})
		require.Empty(t, sent, "nothing is sent during the rest")
		clk.Advance(notifyRest)
		require.Equal(t, "run_2,run_3", <-sent)
	}
	require.NoError(t, clk.Await(ctx, 1), "the notifier rests")
	n.add([]string{"run_4"})
	stop()
	running.Wait()
	require.Equal(t, "run_4", <-sent, "the end does not wait for the rest")
}

func TestNotifier_add_isBounded(t *testing.T) {
	t.Parallel()
	n := newNotifier(nil, clock.Real())
	var payloads []string
	n.send = func(_ context.Context, payload string) error { payloads = append(payloads, payload); return nil }
	for i := range maxPending + 10 {
		n.add([]string{fmt.Sprintf("run_%026d", i)})
	}
	n.notify(t.Context())
	require.Len(t, payloads, maxPending/maxNotified)
	for _, payload := range payloads {
		require.Less(t, len(payload), 8000, "the payload stays below the limit of Postgres")
		require.Equal(t, maxNotified, strings.Count(payload, ",")+1)
	}
	payloads = nil
	n.notify(t.Context())
	require.Empty(t, payloads)
}

func TestCommitter_Store_notifiesReplicas(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2")
	ctx, stop := context.WithCancel(t.Context())
	began, got := make(chan struct{}), make(chan string, 10)
	var listening sync.WaitGroup
	listening.Go(func() {
		_ = pg.Listen(ctx, b.pool, Channel, func() { close(began) }, func(payload string) { got <- payload })
	})
	<-began
	end := b.start()
	for _, id := range []string{"run_1", "run_2"} {
		_, err := b.Store(t.Context(), insertItem(id, "s", Key{"w", 1}, 1))
		require.NoError(t, err)
		require.Equal(t, id, <-got)
	}
	_, err := b.Store(t.Context(), Item{RunID: "run_1", Attempt: 1})
	require.NoError(t, err)
	_, err = b.Store(t.Context(), insertItem("run_2", "s", Key{"w", 2}, 1))
	require.NoError(t, err)
	end()
	require.Equal(t, "run_2", <-got, "a commit without new data sends nothing, and the last commit is announced at the end")
	stop()
	listening.Wait()
}
