package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// tableRow is what the test compares of a job or a run.
type tableRow struct {
	ID     string            `json:"id"`
	Labels map[string]string `json:"labels"`
}

// table follows GET /api/jobs/stream or GET /api/runs/stream as a client does that reconnects.
type table struct {
	name  string // the event with a row: job or run
	query string // the filters

	mu     sync.Mutex
	rows   map[string]string // the label n of each row
	last   int64             // the id of the last event
	resets int
	begun  chan struct{}
}

// event applies an event. It returns an error if the event is not the next one.
func (c *table) event(e client.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := strconv.ParseInt(e.ID, 10, 64)
	if err != nil || id <= c.last {
		return fmt.Errorf("event %s %q after %d: %s", e.Name, e.ID, c.last, e.Data)
	}
	c.last = id
	switch e.Name {
	case "reset":
		if c.resets++; c.resets > 1 {
			return fmt.Errorf("reset again: %s", e.Data)
		}
		close(c.begun)
		return nil
	case c.name:
		var row tableRow
		err := json.Unmarshal([]byte(e.Data), &row)
		c.rows[row.ID] = row.Labels["n"]
		return err
	}
	return fmt.Errorf("event %s: %s", e.Name, e.Data)
}

// follow reads the stream until ctx ends, and reconnects whenever it breaks.
func (c *table) follow(ctx context.Context, from *client.Client) error {
	var refused error
	last := ""
	for ctx.Err() == nil {
		last, _ = from.Follow(ctx, fmt.Sprintf("/api/%ss/stream?%s", c.name, c.query), last, func(e client.Event) error {
			refused = c.event(e)
			return refused
		})
		if refused != nil {
			return refused
		}
		pause(ctx)
	}
	return nil
}

// open begins to follow the table, and waits for the reset. The channel receives the result of follow.
func (c *table) open(ctx context.Context, from *client.Client) (followed chan error, err error) {
	followed = make(chan error, 1)
	go func() { followed <- c.follow(ctx, from) }()
	select {
	case <-c.begun:
		return followed, nil
	case err := <-followed:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// list returns the rows of the list.
func (c *table) list(ctx context.Context, from *client.Client) (map[string]string, error) {
	rows := map[string]string{}
	for offset := 0; ; offset += 500 {
		var page []tableRow
		if err := from.Get(ctx, fmt.Sprintf("/api/%ss?%s&limit=500&offset=%d", c.name, c.query, offset), nil, &page); err != nil {
			return nil, err
		}
		for _, row := range page {
			rows[row.ID] = row.Labels["n"]
		}
		if len(page) < 500 {
			return rows, nil
		}
	}
}

// pause waits before a request is repeated.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// insist repeats a request that is safe to repeat until it succeeds or is refused.
func insist(ctx context.Context, request func() error) error {
	for {
		err := request()
		failed, answered := errors.AsType[*client.Error](err)
		if err == nil || answered && failed.Status < http.StatusInternalServerError {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		pause(ctx)
	}
}

// TestTableOfJobs_serverKilled follows the changes of many jobs with one stream, and those of their runs with another,
// while the server is killed and started again. No event may come twice, none may be missing in the end, and the tables
// are never read again.
func TestTableOfJobs_serverKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	jobs := int64(200)
	if draw.Whole() {
		jobs = 1000
	}
	s := testenv.Single(t, testenv.Options{})
	l := s.Loop(ctx)
	require.NoError(t, l.Client.Post(ctx, "/api/fleets", map[string]any{"name": "far", "kind": "agent", "pools": []string{"far"}}, nil))
	spec := commandSpec(ctx, t, l, "true")
	spec["spec"].(map[string]any)["resources"] = map[string]any{"pools": []any{map[string]any{"pool": "far"}}} // it has no nodes
	spec["spec"].(map[string]any)["labels"] = map[string]string{"table": "x", "n": "0"}

	following, leave := context.WithCancel(ctx)
	defer leave()
	tables := []*table{
		{name: "job", query: "label=table", rows: map[string]string{}, begun: make(chan struct{})},
		{name: "run", query: "label=table&state=all", rows: map[string]string{}, begun: make(chan struct{})},
	}
	followed := make([]chan error, len(tables))
	for i, c := range tables {
		var err error
		followed[i], err = c.open(following, l.Client)
		require.NoError(t, err)
	}

	const workers, changes = 4, 3
	var done atomic.Int64
	g, work := errgroup.WithContext(ctx)
	for w := range workers {
		g.Go(func() error {
			for i := int64(w); i < jobs; i += workers {
				var made tableRow
				keyed := l.Client.WithIdempotencyKey(fmt.Sprintf("table-%d", i))
				if err := insist(work, func() error { return keyed.Post(work, "/api/jobs", spec, &made) }); err != nil {
					return err
				}
				for n := range changes {
					body := map[string]any{"labels": map[string]string{"table": "x", "n": fmt.Sprint(n + 1)}}
					if err := insist(work, func() error { return l.Client.Do(work, http.MethodPatch, "/api/jobs/"+made.ID, body, nil) }); err != nil {
						return err
					}
				}
				done.Add(1)
			}
			return nil
		})
	}
	for kills := range int64(2) {
		s.Until(ctx, "enough jobs have changed", func() bool { return work.Err() != nil || done.Load() > (kills+1)*jobs/3 })
		s.Processes["signalboxd"].Kill()
		s.StartSingle()
	}
	require.NoError(t, g.Wait(), s.Tail())

	for i, c := range tables {
		want, err := c.list(ctx, l.Client)
		require.NoError(t, err)
		require.Len(t, want, int(jobs))
		s.Until(ctx, "the table equals the list", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(followed[i]) > 0 || maps.Equal(want, c.rows)
		})
	}
	leave()
	for i, c := range tables {
		require.NoError(t, <-followed[i])
		require.Equal(t, 1, c.resets)
	}
}
