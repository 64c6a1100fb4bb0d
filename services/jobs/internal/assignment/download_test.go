package assignment_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// files is the number of files of the largest dataset.
const files = 10_000

func fileURI(n int) string { return fmt.Sprintf("blob://projects/prj_1/blobs/sha256/%064d", n) }

// largeAttempt stores an attempt on nod_1 with a dataset of 10,000 files.
func (b *harness) largeAttempt(id string) {
	b.t.Helper()
	b.attempt(id)
	spec := &jobsv1.AttemptSpec{JobId: "job_1", RunId: "run_1", Datasets: []*jobsv1.DatasetInput{{Name: "train"}}}
	for n := range files {
		spec.Datasets[0].Files = append(spec.Datasets[0].Files, &jobsv1.ObjectRef{
			Path: fmt.Sprintf("part-%05d.jsonl", n), Uri: fileURI(n), SizeBytes: 100, Sha256: fmt.Sprintf("%064d", n),
		})
	}
	raw, err := proto.Marshal(spec)
	require.NoError(b.t, err)
	b.exec(`UPDATE work SET spec = $2 WHERE id = $1`, id, raw)
}

// fetchingHello is the hello of an agent that fetches works.
func fetchingHello() *jobsv1.ConnectRequest {
	m := hello("nod_1")
	m.GetHello().FetchesWorks = true
	return m
}

// chunks is the stream of FetchWork.
type chunks struct {
	grpc.ServerStream
	ctx    context.Context
	data   []byte
	number int
}

func (c *chunks) Context() context.Context { return c.ctx }

func (c *chunks) Send(m *jobsv1.WorkChunk) error {
	c.data, c.number = append(c.data, m.GetData()...), c.number+1
	return nil
}

func TestAgentStream_tenLargeWorksFitIntoMessage(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	for n := range 10 {
		b.largeAttempt(fmt.Sprintf("wrk_%d", n))
	}
	a := b.connect(newCluster())
	a.in <- fetchingHello()
	<-a.out
	list := (<-a.out).GetDesired()
	require.Len(t, list.GetWorks(), 10)
	require.Less(t, proto.Size(list), 4<<10)
	require.Equal(t, "http://x/api/ingest", list.GetIngestEndpoint())
	for _, w := range list.GetWorks() {
		require.Nil(t, w.GetSpec())
	}

	s, _, _ := b.agents()
	s.Agents.IngestEndpoint = func() string { return "http://x/api/ingest" }
	got := &chunks{ctx: asNode(t.Context(), "nod_1")}
	require.NoError(t, s.FetchWork(&jobsv1.FetchWorkRequest{WorkId: "wrk_3", Generation: 1, Fence: 1}, got))
	require.Greater(t, got.number, 1)
	w := &jobsv1.Work{}
	require.NoError(t, proto.Unmarshal(got.data, w))
	require.Len(t, w.GetAttempt().GetDatasets()[0].GetFiles(), files)
	require.Equal(t, "http://x/api/ingest", w.GetAttempt().GetIngestEndpoint())
}

// An agent of the previous version gets complete works. If they are too large for it, the error names the remedy.
func TestAgentStream_agentOfPreviousVersion(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.largeAttempt("wrk_1")
	a := b.connect(newCluster())
	works := a.open(t)
	require.Len(t, works[0].GetAttempt().GetDatasets()[0].GetFiles(), files)
	b.largeAttempt("wrk_2")
	b.largeAttempt("wrk_3")
	a = b.connect(newCluster())
	a.in <- hello("nod_1")
	<-a.out
	err := <-a.done
	require.True(t, fault.HasCode(err, "agent_outdated"), "%v", err)
	require.ErrorContains(t, err, "update the agent")
}

func TestFetchWork_onlyOwnExecution(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_1")
	s, _, _ := b.agents()
	for name, c := range map[string]struct {
		node, id string
		fence    int64
		kind     fault.Kind
	}{
		"other node":      {"nod_2", "wrk_1", 1, fault.Absent},
		"unknown work":    {"nod_1", "wrk_9", 1, fault.Absent},
		"other execution": {"nod_1", "wrk_1", 2, fault.Conflict},
	} {
		got := &chunks{ctx: asNode(t.Context(), c.node)}
		err := s.FetchWork(&jobsv1.FetchWorkRequest{WorkId: c.id, Generation: 1, Fence: c.fence}, got)
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		require.Empty(t, got.data, name)
	}
}

// The stricter of the settings of the pool and of the agent applies until the node has the work.
func TestFetchWork_isolation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		boundary, pool string
		refused        bool
	}{
		"isolated, required":          {`{"kind": "own_user", "required": true}`, "required", false},
		"isolated, none":              {`{"kind": "own_user", "required": true}`, "none", false},
		"agent isolates nothing":      {`{"kind": "none", "required": false}`, "required", true},
		"pool permits it":             {`{"kind": "none", "required": false}`, "none", false},
		"agent requires but cannot":   {`{"kind": "none", "required": true}`, "none", true},
		"old agent, required by pool": {`{"kind": "unknown", "required": false}`, "required", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
			b.attempt("wrk_1")
			b.lease() // inserts the node
			b.exec(`UPDATE node SET boundary = $1::jsonb`, c.boundary)
			b.exec(`INSERT INTO pool (name, isolation) VALUES ('cpu', $1) ON CONFLICT (name) DO UPDATE SET isolation = excluded.isolation`, c.pool)
			s, _, _ := b.agents()
			s.Agents.IngestEndpoint = func() string { return "http://x/api/ingest" }
			got := &chunks{ctx: asNode(t.Context(), "nod_1")}
			err := s.FetchWork(&jobsv1.FetchWorkRequest{WorkId: "wrk_1", Generation: 1, Fence: 1}, got)
			if !c.refused {
				require.NoError(t, err)
				return
			}
			require.True(t, fault.HasCode(err, fleet.CodeIsolation), "%v", err)
			require.Empty(t, got.data)
		})
	}
}

// Each page needs the row of the work, but only the first page loads the spec of the work.
func TestSignDownloads_loadsSpecOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.largeAttempt("wrk_1")
	s, _, blobs := b.agents()
	ctx := asNode(t.Context(), "nod_1")
	page := func(from int) *jobsv1.SignDownloadsRequest {
		r := &jobsv1.SignDownloadsRequest{WorkId: "wrk_1", Generation: 1, Fence: 1}
		for n := range 500 {
			r.Uris = append(r.Uris, fileURI(from+n))
		}
		return r
	}
	_, err := s.SignDownloads(ctx, page(0))
	require.NoError(t, err)
	b.exec(`UPDATE work SET spec = '\x00'`) // cannot be decoded
	got, err := s.SignDownloads(ctx, page(500))
	require.NoError(t, err)
	require.Len(t, got.GetDownloads(), 500)
	require.Equal(t, "http://x/projects/prj_1/blobs/sha256/"+fmt.Sprintf("%064d", 999), got.GetDownloads()[499].GetUrl())
	require.Equal(t, 15*time.Minute, blobs.expires)

	_, err = s.SignDownloads(ctx, page(files-1))
	require.True(t, fault.Is(err, fault.Absent), "an object that is not in the spec must not be found: %v", err)
	_, err = s.SignDownloads(asNode(t.Context(), "nod_2"), page(0))
	require.True(t, fault.Is(err, fault.Absent), "another node must not find the work: %v", err)
	b.exec(`UPDATE work SET fence = 2`)
	_, err = s.SignDownloads(ctx, page(0))
	require.True(t, fault.Is(err, fault.Conflict), "an execution that is over must be refused: %v", err)
}

// Saving a work that was read without its spec leaves the stored spec unchanged.
func TestStore_Save_specNotLoaded(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_1")
	spec := b.get("wrk_1").Spec
	require.NotEmpty(t, spec)
	heads, err := b.works.OnNode(t.Context(), b.pool, "nod_1")
	require.NoError(t, err)
	require.Nil(t, heads[0].Spec)
	heads[0].Phase = "preparing"
	require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return b.works.Save(ctx, tx, heads[0], heads[0].Key, "nod_1", b.clock.Now())
	}))
	require.Equal(t, "preparing", b.get("wrk_1").Phase)
	require.Equal(t, spec, b.get("wrk_1").Spec)
}
