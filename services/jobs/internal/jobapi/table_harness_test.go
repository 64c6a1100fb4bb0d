package jobapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
)

// replica is one instance of the server with its own wake-ups.
type replica struct {
	*jobapi.Server

	ctx  context.Context
	stop func()
}

// replica starts a server on the database of the harness. Its method stop ends its streams and waits for its loops.
func (b *harness) replica() *replica {
	b.t.Helper()
	hub := pg.NewNotifyHub()
	tables, err := jobapi.NewTables(b.pool, hub, b.clk, slog.New(slog.DiscardHandler), nil)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(b.t.Context())
	r := &replica{Server: &jobapi.Server{Pool: b.pool, Jobs: b.Jobs, Hub: hub, Clock: b.clk, Tables: tables}, ctx: ctx}
	var loops sync.WaitGroup
	loops.Go(func() { _ = tables.Run(ctx) })
	loops.Go(func() { _ = hub.Listen(ctx, b.pool) })
	r.stop = func() { cancel(); loops.Wait() }
	b.t.Cleanup(r.stop)
	return r
}

// tableClient builds a table from the events of WatchJobs only, and from the list after a reset.
type tableClient struct {
	caller *authn.Caller
	req    *jobsv1.WatchJobsRequest

	mu     sync.Mutex
	rows   map[string]*jobsv1.Job
	seen   map[string]bool // ids in any event or list
	events []*jobsv1.WatchJobsResponse
	resets []string
	faults []string
}

func newTableClient(caller *authn.Caller, req *jobsv1.WatchJobsRequest) *tableClient {
	return &tableClient{caller: caller, req: req, rows: map[string]*jobsv1.Job{}, seen: map[string]bool{}}
}

// as returns a context in which the client calls the server.
func (c *tableClient) as(ctx context.Context) context.Context {
	return authn.WithNeed(authn.NewContext(ctx, c.caller), authn.NeedRead)
}

// list reads all pages of the list that the client's table must be equal to.
func (c *tableClient) list(ctx context.Context, s *jobapi.Server) (map[string]*jobsv1.Job, error) {
	rows, limit := map[string]*jobsv1.Job{}, int32(500)
	in := &jobsv1.ListJobsRequest{
		State: c.req.State, Project: c.req.Project, Owner: c.req.Owner, Label: c.req.GetLabel(), Q: c.req.Q, Limit: &limit,
		CreatedAfter: c.req.GetCreatedAfter(), CreatedBefore: c.req.GetCreatedBefore(),
	}
	for {
		page, err := s.ListJobs(grpc.NewContextWithServerTransportStream(c.as(ctx), noHeader{}), in)
		if err != nil {
			return nil, err
		}
		for _, j := range page.GetJobs() {
			rows[j.GetId()], in.After = j, new(request.TimePosition(j.GetCreatedAt().AsTime(), j.GetId()))
		}
		if len(page.GetJobs()) < int(limit) {
			return rows, nil
		}
	}
}

type noHeader struct{ grpc.ServerTransportStream }

func (noHeader) SetHeader(metadata.MD) error { return nil }

// watch connects until ctx ends, the server stops, or after the given number of events.
func (c *tableClient) watch(ctx context.Context, r *replica, events int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	return r.WatchJobs(proto.CloneOf(c.req), &tableStream{ctx: c.as(ctx), cancel: cancel, client: c, server: r.Server, left: events})
}

// tableStream is a connection of a tableClient.
type tableStream struct {
	grpc.ServerStreamingServer[jobsv1.WatchJobsResponse]

	ctx    context.Context
	cancel func()
	client *tableClient
	server *jobapi.Server
	left   int
}

func (s *tableStream) Context() context.Context       { return s.ctx }
func (s *tableStream) SendHeader(_ metadata.MD) error { return nil }
func (s *tableStream) Send(m *jobsv1.WatchJobsResponse) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if err := s.client.apply(s.ctx, s.server, m); err != nil {
		return err
	}
	if s.left--; s.left == 0 {
		s.cancel()
	}
	return nil
}

// apply changes the table as the documentation requires.
func (c *tableClient) apply(ctx context.Context, s *jobapi.Server, m *jobsv1.WatchJobsResponse) error {
	rows := map[string]*jobsv1.Job{}
	if m.GetReset_() != nil {
		var err error
		if rows, err = c.list(ctx, s); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reset := m.GetReset_() != nil
	if m.GetSeq() <= c.req.GetAfter() && !reset {
		c.faults = append(c.faults, fmt.Sprintf("event %d after event %d", m.GetSeq(), c.req.GetAfter()))
	}
	c.req.After, c.events = m.GetSeq(), append(c.events, m)
	switch {
	case reset:
		c.rows, c.resets = rows, append(c.resets, m.GetReset_().GetReason())
		for id := range rows {
			c.seen[id] = true
		}
	case m.GetJob() != nil:
		c.rows[m.GetJob().GetId()], c.seen[m.GetJob().GetId()] = m.GetJob(), true
	case m.GetGone() != nil:
		delete(c.rows, m.GetGone().GetId())
		c.seen[m.GetGone().GetId()] = true
	}
	return nil
}

// differs returns how the table differs from the list, or "". The position in the queue is not part of the stream.
func (c *tableClient) differs(ctx context.Context, s *jobapi.Server) string {
	want, err := c.list(ctx, s)
	if err != nil {
		return err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, j := range want {
		got := c.rows[id]
		if got == nil {
			return "lacks " + id
		}
		if got = proto.CloneOf(got); got.GetQueue() != nil && j.GetQueue() != nil {
			got.Queue.Position = j.GetQueue().GetPosition()
		}
		if !proto.Equal(got, j) {
			return fmt.Sprintf("has %v instead of %v", got, j)
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
func (c *tableClient) awaitEqual(t *testing.T, s *jobapi.Server) {
	t.Helper()
	require.Eventually(t, func() bool { return c.differs(t.Context(), s) == "" }, time30, 20*tick, "%v", c.req)
}

// awaitEvents waits until the client has received n events, and returns the last n.
func (c *tableClient) awaitEvents(t *testing.T, n int) []*jobsv1.WatchJobsResponse {
	t.Helper()
	var got []*jobsv1.WatchJobsResponse
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		got = c.events
		return len(got) >= n
	}, time30, tick)
	return got
}
