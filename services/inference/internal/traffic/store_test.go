package traffic

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/inference/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func testStore(t testing.TB) (*Store, *pgtest.DB) {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	d := pgtest.New(t, pgtest.Schema{Name: "inference", Migrations: files})
	return &Store{Pool: d.Pool("inference")}, d
}

func ids() *id.Source { return id.NewSource(clock.Real(), rand.Reader) }

func testCalls(n int, at time.Time) []*Call {
	source, out := ids(), make([]*Call, n)
	for i := range out {
		out[i] = &Call{
			RequestID: source.New(id.Request), At: at.UTC().Truncate(time.Microsecond), DeploymentID: "dep_a", RevisionID: "rev_1",
			TokenID: "tok_1", Method: "POST", Path: "/v1/x", Status: 200, Outcome: OK, UsageSource: UsageNone, RequestBytes: int64(i),
		}
	}
	return out
}

func stored(t *testing.T, s *Store) []*Call {
	t.Helper()
	calls, err := s.List(t.Context(), "dep_a", Filter{}, request.Page{Limit: request.MaxLimit})
	require.NoError(t, err)
	return calls
}

func count(t *testing.T, s *Store, what string) int {
	t.Helper()
	var n int
	require.NoError(t, s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+what).Scan(&n))
	return n
}

func TestStoreRoundTrip(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	name, model, reason, tokens, ms := "name", "m", "stop", int32(5), 1.5
	want := testCalls(1, time.Now())[0]
	want.RevisionNumber, want.TokenName, want.ReplicaID, want.Stream = 3, name, "rep_1", true
	want.RequestedModel, want.ResponseModel, want.FinishReason = &name, &model, &reason
	want.PromptTokens, want.CompletionTokens, want.UsageSource = &tokens, &tokens, UsageEngine
	want.TTFT, want.Duration, want.RequestBytes, want.ResponseBytes = &ms, 2.5, 1<<40, 1<<41
	in, out := int64(7), int64(9)
	want.RequestFrames, want.ResponseFrames = &in, &out
	refused, err := s.Put(t.Context(), "b1", []*Call{want})
	require.NoError(t, err)
	require.Zero(t, refused)
	require.Empty(t, cmp.Diff([]*Call{want}, stored(t, s), cmpopts.IgnoreUnexported(Call{})))
}

func TestStore_Put_repeated(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	calls := testCalls(20, time.Now())
	for range 3 {
		_, err := s.Put(t.Context(), "b1", calls)
		require.NoError(t, err)
	}
	require.Equal(t, 20, count(t, s, "call"))
	require.EqualValues(t, 1, s.Pool.Stat().NewConnsCount(), "a repeated batch must not close the connection")
	_, err := s.Put(t.Context(), "it's", testCalls(5, time.Now()))
	require.NoError(t, err)
	require.Equal(t, 25, count(t, s, "call"))
	require.NoError(t, s.Forget(t.Context(), "b1", "it's", "never"))
	require.Zero(t, count(t, s, "batch"))
	_, err = s.Pool.Exec(t.Context(), "INSERT INTO batch VALUES ('old', now() - interval '91 days'), ('new', now())")
	require.NoError(t, err)
	n, err := s.DeleteBatches(t.Context(), time.Now().Add(-BatchAge), 10)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.Equal(t, 1, count(t, s, "batch"))
}

func TestStore_Put_concurrentSameName(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	require.NoError(t, s.EnsurePartitions(t.Context()))
	calls, done := testCalls(200, time.Now()), make(chan error)
	for range 6 {
		go func() {
			_, err := s.Put(t.Context(), "same", calls)
			done <- err
		}()
	}
	for range 6 {
		require.NoError(t, <-done)
	}
	require.Equal(t, 200, count(t, s, "call"))
}

func TestStore_Put_createsPartition(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	now := time.Now()
	total := 0
	for i, at := range []time.Time{now, now.AddDate(0, 0, -40), now.AddDate(0, 0, 40), now.AddDate(-3, 0, 0)} {
		_, err := s.Put(t.Context(), fmt.Sprint("b", i), testCalls(3, at))
		require.NoError(t, err)
		total += 3
		require.Equal(t, total, count(t, s, "call"))
	}
	mixed := append(testCalls(2, now.AddDate(0, 0, 20)), testCalls(2, now.AddDate(0, 0, 21))...)
	_, err := s.Put(t.Context(), "mixed", mixed)
	require.NoError(t, err)
	require.Equal(t, total+4, count(t, s, "call"))
}

func TestStore_EnsurePartitions(t *testing.T) {
	t.Parallel()
	s, d := testStore(t)
	for range 2 {
		require.NoError(t, s.EnsurePartitions(t.Context()))
	}
	require.Equal(t, daysAhead, count(t, s, "pg_inherits WHERE inhparent = 'call'::regclass AND inhrelid::regclass::text LIKE '%call_2%'"))
	today := time.Now().UTC().Truncate(24 * time.Hour)
	_, err := s.Put(t.Context(), "edge", append(testCalls(1, today), testCalls(1, today.Add(-time.Microsecond))...))
	require.NoError(t, err)
	require.Equal(t, 1, count(t, s, "call WHERE tableoid::regclass::text LIKE '%"+today.Format("20060102")+"'"))
	// The server's role may not create tables itself.
	_, err = s.Pool.Exec(t.Context(), "CREATE TABLE mine ()")
	require.Error(t, err)
	for _, days := range []int{0, -1, 61} {
		_, err = d.Pool("inference").Exec(t.Context(), "SELECT ensure_call_partitions(current_date, $1)", days)
		require.Error(t, err)
	}
}

func TestStore_DropDays(t *testing.T) {
	t.Parallel()
	s, d := testStore(t)
	require.NoError(t, s.EnsurePartitions(t.Context()))
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for day := range 12 {
		_, err := s.Put(t.Context(), fmt.Sprint("day", day), testCalls(2, today.AddDate(0, 0, -day).Add(time.Hour)))
		require.NoError(t, err)
	}
	// The calls of today and of the two days before it are kept; those of the other nine days are deleted.
	before := today.AddDate(0, 0, -2).Add(time.Hour)
	n, err := s.DropDays(t.Context(), before, 1000)
	require.NoError(t, err)
	require.Equal(t, int64(dropDays), n, "one call must drop at most dropDays partitions")
	require.Equal(t, 8, count(t, s, "call"))
	n, err = s.DropDays(t.Context(), before, 1000)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.Zero(t, count(t, s, "call WHERE at < '"+today.AddDate(0, 0, -2).Format(time.RFC3339)+"'"))
	require.Equal(t, 6, count(t, s, "call"), "the day that contains the given time must be kept")
	n, err = s.DropDays(t.Context(), before, 1000)
	require.NoError(t, err)
	require.Zero(t, n)

	reader, err := d.Pool("inference").Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = reader.Exec(t.Context(), `SELECT count(*) FROM call`)
	require.NoError(t, err)
	_, err = s.DropDays(t.Context(), today, 1000)
	require.ErrorContains(t, err, "lock timeout", "the drop must give up, so that a long read does not make all writers wait")
	require.NoError(t, reader.Rollback(t.Context()))
	n, err = s.DropDays(t.Context(), today, 1000)
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
}

func TestStore_Put_refusedCalls(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	calls := testCalls(6, time.Now())
	calls[1].Path = "nul\x00"
	calls[3].Outcome = "unheard of"
	calls[4].Method = "\xff"
	refused, err := s.Put(t.Context(), "b1", calls)
	require.NoError(t, err)
	require.Equal(t, 3, refused)
	require.Equal(t, 3, count(t, s, "call"))
	// The result is the same if the partition has to be created first.
	refused, err = s.Put(t.Context(), "b2", append(testCalls(2, time.Now().AddDate(0, 0, -70)), &Call{At: time.Now(), Outcome: "no"}))
	require.NoError(t, err)
	require.Equal(t, 1, refused)
	require.Equal(t, 5, count(t, s, "call"))
	refused, err = s.Put(t.Context(), "b3", append(testCalls(2, time.Now().AddDate(0, 0, 70)), &Call{At: time.Now(), Outcome: "no"}))
	require.NoError(t, err)
	require.Equal(t, 1, refused)
	require.Equal(t, 7, count(t, s, "call"))
}

func TestStoreDatabaseUnavailable(t *testing.T) {
	t.Parallel()
	s, d := testStore(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Put(over, "b1", testCalls(1, time.Now()))
	require.Error(t, err)
	closed := d.Pool("inference")
	closed.Close()
	_, err = (&Store{Pool: closed}).Put(t.Context(), "b1", testCalls(1, time.Now()))
	require.Error(t, err)
	require.Error(t, (&Store{Pool: closed}).Forget(t.Context(), "b1"))
	require.Error(t, (&Store{Pool: closed}).EnsurePartitions(t.Context()))
	_, err = (&Store{Pool: closed}).List(t.Context(), "dep_a", Filter{}, request.Page{Limit: 1})
	require.Error(t, err)
}

func TestStore_List_filters(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	began := time.Now().UTC().Truncate(time.Hour)
	all := testCalls(4, began)
	for i, c := range all {
		c.At, c.TokenID, c.RevisionNumber, c.Duration = began.Add(time.Duration(i)*time.Minute), fmt.Sprint("tok_", i%2), int32(1+i%2), float64(100*i)
	}
	all[1].Status, all[1].Outcome = 404, OK
	all[3].Status, all[3].Outcome = 502, Unreachable
	_, err := s.Put(t.Context(), "b1", all)
	require.NoError(t, err)
	at := func(minutes int) *time.Time { m := began.Add(time.Duration(minutes) * time.Minute); return &m }
	two, slow := int32(2), 200.0
	for name, c := range map[string]struct {
		filter Filter
		want   []int
	}{
		"all": {Filter{}, []int{3, 2, 1, 0}}, "token": {Filter{Token: "tok_1"}, []int{3, 1}}, "status": {Filter{Status: "404"}, []int{1}},
		"status class": {Filter{Status: "5xx"}, []int{3}}, "status class without calls": {Filter{Status: "3xx"}, nil}, "outcome": {Filter{Outcome: Unreachable}, []int{3}},
		"from": {Filter{From: at(2)}, []int{3, 2}}, "to": {Filter{To: at(2)}, []int{1, 0}}, "revision": {Filter{Revision: &two}, []int{3, 1}},
		"after a call":    {Filter{AfterTime: all[2].At, After: all[2].RequestID}, []int{1, 0}},
		"after no call":   {Filter{AfterTime: all[2].At, After: "req_"}, []int{1, 0}},
		"minimum latency": {Filter{MinLatency: &slow}, []int{3, 2}}, "combined": {Filter{Token: "tok_1", Status: "5xx", From: at(1), To: at(4), Revision: &two}, []int{3}},
	} {
		got, err := s.List(t.Context(), "dep_a", c.filter, request.Page{Limit: 10})
		require.NoError(t, err, name)
		var ids, want []string
		for _, call := range got {
			ids = append(ids, call.RequestID)
		}
		for _, i := range c.want {
			want = append(want, all[i].RequestID)
		}
		require.Equal(t, want, ids, name)
	}
	one, err := s.Get(t.Context(), "dep_a", all[2].RequestID)
	require.NoError(t, err)
	require.Equal(t, all[2].Duration, one.Duration)
	_, err = s.Get(t.Context(), "dep_b", all[2].RequestID)
	require.True(t, fault.Is(err, fault.Absent), "a call of another deployment must not be found: %v", err)
	points, err := s.Series(t.Context(), "dep_a", Filter{From: at(0), To: at(4)}, 2*time.Minute)
	require.NoError(t, err)
	require.Len(t, points, 2)
	require.True(t, points[0].At.Equal(*at(0)) && points[1].At.Equal(*at(2)))
	require.Equal(t, []int64{2, 2, 2, 1}, []int64{points[0].Calls, points[0].OK, points[1].Calls, points[1].OK})
	require.InEpsilon(t, 250, *points[1].Duration50, percentileError)
	require.Nil(t, points[0].TTFT50, "a step without values must have no percentile")
}
