package groupcommit

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Channel is the Postgres notification channel of commits. The payload is the ids of the runs, separated by commas.
const Channel = "signalbox_ingest_run"

const (
	// maxNotified is the maximum number of runs in one notification. It keeps the payload below Postgres' limit of 8000
	// bytes.
	maxNotified = 100
	// maxPending is the maximum number of runs that wait for a notification. The followers of further runs poll.
	maxPending = 10_000
	// notifyTimeout limits the time to send one notification, and thereby how long a stopping committer waits for the
	// notifier.
	notifyTimeout = 2 * time.Second
	// notifyRest is the least time between two notifications of a replica. Each notification wakes every replica, so without
	// it their cost would grow with the rate of commits times the number of replicas.
	notifyRest = 20 * time.Millisecond
)

// notifier announces commits to the followers on all replicas. Postgres lets only one transaction at a time commit a
// notification, so the transactions of groups contain none. The notifier sends one afterwards, for all runs that were
// committed while it sent the previous one and then rested.
type notifier struct {
	send  func(ctx context.Context, payload string) error
	clock clock.Clock

	mu   sync.Mutex
	runs map[string]bool
	news chan struct{} // receives a value when runs were added
}

func newNotifier(q pg.Querier, clk clock.Clock) *notifier {
	return &notifier{clock: clk, runs: map[string]bool{}, news: make(chan struct{}, 1), send: func(ctx context.Context, payload string) error {
		_, err := q.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, payload)
		return err
	}}
}

// add queues runs with new data. It does not block.
func (n *notifier) add(runs []string) {
	n.mu.Lock()
	for _, id := range runs {
		if len(n.runs) < maxPending {
			n.runs[id] = true
		}
	}
	n.mu.Unlock()
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// run sends notifications until ctx ends, and then sends those that are still queued.
func (n *notifier) run(ctx context.Context) {
	sending := context.WithoutCancel(ctx) // notify has its own time limit
	for {
		select {
		case <-n.news:
			n.notify(sending)
			_ = clock.Sleep(ctx, n.clock, notifyRest) // if ctx has ended, what is queued is sent without a rest
		case <-ctx.Done():
			n.notify(sending)
			return
		}
	}
}

// notify sends the queued runs. If a notification cannot be sent, the followers of its runs poll.
func (n *notifier) notify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	for runs := range slices.Chunk(n.take(), maxNotified) {
		if n.send(ctx, strings.Join(runs, ",")) != nil {
			return
		}
	}
}

func (n *notifier) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	runs := make([]string, 0, len(n.runs))
	for id := range n.runs {
		runs = append(runs, id)
	}
	clear(n.runs)
	slices.Sort(runs)
	return runs
}
