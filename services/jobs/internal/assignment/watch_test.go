package assignment_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

func unmarshal(raw []byte, m proto.Message) error { return proto.Unmarshal(raw, m) }

// watch opens a watch. It returns the stream, the hub that wakes the watch, and a function that ends it.
func (b *harness) watch() (s *statuses, hub *pg.NotifyHub, end func() error) {
	b.t.Helper()
	peer := b.peer()
	ctx, cancel := context.WithCancel(b.t.Context())
	s = &statuses{ctx: ctx, sent: make(chan *jobspeerv1.WorkStatus, 100)}
	done := make(chan error, 1)
	go func() {
		defer close(s.sent)
		done <- peer.WatchWorks(&jobspeerv1.WatchWorksRequest{}, s)
	}()
	end = func() error {
		cancel()
		return <-done
	}
	return s, peer.Hub, end
}

// list reads the initial list, up to the message in which Synced is set.
func (s *statuses) list() (works []*jobspeerv1.WorkStatus) {
	for m := range s.sent {
		if m.GetSynced() {
			break
		}
		works = append(works, m)
	}
	return works
}

func (b *harness) put(o *jobspeerv1.PutWorkRequest) {
	b.t.Helper()
	_, err := b.peer().PutWork(b.t.Context(), o)
	require.NoError(b.t, err)
}

func TestWatchWorks_startsWithAllEngines(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_0")
	b.put(orderOf("wrk_2", 1, running))
	b.put(orderOf("wrk_1", 4, running))
	b.put(orderOf("wrk_3", 1, running))
	b.put(orderOf("wrk_3", 1, gone))
	b.put(orderOf("wrk_4", 1, running))
	b.put(orderOf("wrk_4", 1, gone))
	b.exec(`UPDATE work SET updated_at = clock_timestamp() - interval '61 minutes' WHERE id = 'wrk_4'`)
	s, _, end := b.watch()
	var ids []string
	for _, m := range s.list() {
		ids = append(ids, m.GetWorkId())
	}
	require.Equal(t, []string{"wrk_1", "wrk_2", "wrk_3"}, ids, "the engines must be ordered by ID, without the one that has long been gone")
	require.ErrorIs(t, end(), context.Canceled)
}

func TestWatchWorks_sendsEachChangeOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.put(orderOf("wrk_1", 1, running))
	b.put(orderOf("wrk_2", 1, running))
	s, hub, end := b.watch()
	first := s.list()
	require.Len(t, first, 2)
	require.Equal(t, assignment.WaitStart, first[0].GetWaiting())
	for range 3 {
		hub.Wake(db.EnginesTopic) // nothing has changed
	}
	b.exec(`UPDATE work SET fence = 7, node_id = 'nod_1', waiting = '' WHERE id = 'wrk_1'`)
	hub.Wake(db.EnginesTopic)
	m := <-s.sent
	require.Equal(t, "wrk_1", m.GetWorkId())
	require.EqualValues(t, 7, m.GetFence())
	require.Equal(t, "nod_1", m.GetNodeId())
	require.Error(t, end())
	require.Empty(t, s.sent, "an unchanged engine must not be sent")
}

// A wake-up may be lost, so the watch also polls.
func TestWatchWorks_pollsWithoutWakeUp(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	s, _, end := b.watch()
	require.Empty(t, s.list())
	b.put(orderOf("wrk_1", 1, running))
	require.NoError(t, b.clock.Await(t.Context(), 1))
	b.clock.Advance(5 * time.Second)
	require.Equal(t, "wrk_1", (<-s.sent).GetWorkId())
	require.Error(t, end())
}

func TestWatchWorks_sendsEngineKey(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.put(orderOf("wrk_1", 1, running))
	report, err := proto.Marshal(&jobsv1.EngineReport{Address: "http://127.0.0.1:9", Ready: true})
	require.NoError(t, err)
	const key = "very-secret-key"
	sealed, err := b.works.Keys.Seal([]byte(key), "work.engine_key:wrk_1")
	require.NoError(t, err)
	b.exec(`UPDATE work SET engine = $1, engine_key = $2, phase = 'running'`, report, sealed)
	s, _, end := b.watch()
	got := s.list()
	require.Len(t, got, 1)
	require.Equal(t, key, got[0].GetObserved().GetEngine().GetApiKey())
	require.True(t, got[0].GetObserved().GetEngine().GetReady())
	require.Error(t, end())
	b.exec(`UPDATE work SET engine_key = 'nonsense'::bytea`)
	err = b.peer().WatchWorks(&jobspeerv1.WatchWorksRequest{}, &statuses{ctx: t.Context(), sent: make(chan *jobspeerv1.WorkStatus, 9)})
	require.ErrorContains(t, err, "decrypt the API key of engine wrk_1", "a key that cannot be decrypted must end the watch with an error")
}
