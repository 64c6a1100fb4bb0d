package tablefeed_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

func operator(projects ...string) *authn.Caller {
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_bob", Role: authn.RoleOperator}
	for _, p := range projects {
		c.Projects = append(c.Projects, authn.ProjectRole{Project: p, Role: authn.ProjectViewer})
	}
	return c
}

// client builds a table from the events of a stream only, and from the list after a reset.
type client struct {
	of     table
	caller *authn.Caller
	query  query

	mu     sync.Mutex
	after  int64
	rows   map[string]row
	seen   map[string]bool // ids in any event or list
	events []tableEvent
	resets []string
	faults []string
}

func newClient(of table, caller *authn.Caller, q query) *client {
	return &client{of: of, caller: caller, query: q, rows: map[string]row{}, seen: map[string]bool{}}
}

// as returns a context in which the client calls the server.
func (c *client) as(ctx context.Context) context.Context {
	return authn.WithNeed(authn.NewContext(ctx, c.caller), authn.NeedRead)
}

// list reads all pages of the list that the client's table must be equal to.
func (c *client) list(ctx context.Context, r *replica) (map[string]row, error) {
	const limit = 500
	var after *string
	for rows := map[string]row{}; ; {
		page, err := c.of.list(c.as(ctx), r, c.query, limit, after)
		if err != nil {
			return nil, err
		}
		for _, got := range page {
			rows[got.GetId()], after = got, positionOf(got)
		}
		if len(page) < limit {
			return rows, nil
		}
	}
}

// watch connects until ctx ends, the replica stops, or after the given number of events.
func (c *client) watch(ctx context.Context, r *replica, events int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	c.mu.Lock()
	after := c.after
	c.mu.Unlock()
	return c.of.watch(c.as(ctx), r, c.query, after, &connection{ctx: ctx, cancel: cancel, client: c, replica: r, left: events})
}

// connection is a connection of a client. If gate is set, it receives only the first event until gate is closed.
type connection struct {
	ctx     context.Context
	cancel  func()
	client  *client
	replica *replica
	left    int
	gate    chan struct{}
	opened  bool
}

func (*connection) accepted() error { return nil }

func (s *connection) receive(e tableEvent) error {
	if s.gate != nil && s.opened {
		select {
		case <-s.gate:
		case <-s.ctx.Done():
		}
	}
	s.opened = true
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if err := s.client.apply(s.ctx, s.replica, e); err != nil {
		return err
	}
	if s.left--; s.left == 0 {
		s.cancel()
	}
	return nil
}

// apply changes the table as the documentation requires.
func (c *client) apply(ctx context.Context, r *replica, e tableEvent) error {
	rows := map[string]row{}
	if e.reset != "" {
		var err error
		if rows, err = c.list(ctx, r); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.id <= c.after && e.reset == "" {
		c.faults = append(c.faults, fmt.Sprintf("event %d after event %d", e.id, c.after))
	}
	c.after, c.events = e.id, append(c.events, e)
	switch {
	case e.reset != "":
		c.rows, c.resets = rows, append(c.resets, e.reset)
		for id := range rows {
			c.seen[id] = true
		}
	case e.row != nil:
		c.rows[e.row.GetId()], c.seen[e.row.GetId()] = e.row, true
	default:
		delete(c.rows, e.gone)
		c.seen[e.gone] = true
	}
	return nil
}

// comparableRow returns a row without the position in the queue, which is not part of the stream.
func comparableRow(r row) proto.Message {
	out := proto.Clone(r)
	if j, ok := out.(*jobsv1.Job); ok && j.GetQueue() != nil {
		j.Queue.Position = 0
	}
	return out
}

// differs returns how the table differs from the list, or "".
func (c *client) differs(ctx context.Context, r *replica) string {
	want, err := c.list(ctx, r)
	if err != nil {
		return err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range want {
		got := c.rows[id]
		if got == nil {
			return "lacks " + id
		}
		if !proto.Equal(comparableRow(got), comparableRow(w)) {
			return fmt.Sprintf("has %v instead of %v", got, w)
		}
	}
	for id := range c.rows {
		if want[id] == nil {
			return "still has " + id
		}
	}
	return ""
}

// awaitEqual waits until the table is equal to the list.
func (c *client) awaitEqual(t *testing.T, r *replica) {
	t.Helper()
	require.Eventually(t, func() bool { return c.differs(t.Context(), r) == "" }, time30, 20*tick, "%+v", c.query)
}

// awaitEvents waits until the client has received n events, and returns all that it has received.
func (c *client) awaitEvents(t *testing.T, n int) []tableEvent {
	t.Helper()
	var got []tableEvent
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		got = c.events
		return len(got) >= n
	}, time30, tick)
	return got
}

// last waits until the client has received n events, and returns the last of them.
func (c *client) last(t *testing.T, n int) tableEvent {
	t.Helper()
	events := c.awaitEvents(t, n)
	require.Len(t, events, n)
	return events[n-1]
}

// open connects a client and waits until it has read the list. The function leave disconnects it.
func (b *harness) open(r *replica, c *client) (leave func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var ended sync.WaitGroup
	before, begins := len(c.events), c.after == 0
	ended.Go(func() { _ = c.watch(ctx, r, 0) })
	leave = func() { cancel(); ended.Wait() }
	b.t.Cleanup(leave)
	if begins {
		c.awaitEvents(b.t, before+1)
	}
	return leave
}
