package traffic

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Requests that read slowly must not take all connections of the pool, which the recorder needs.
func TestServer_GetMetrics_leavesConnections(t *testing.T) {
	t.Parallel()
	store, d := testStore(t)
	require.NoError(t, store.Pool.Ping(t.Context()))
	lock, err := d.OwnerPool("inference").Begin(t.Context())
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), `LOCK TABLE call_rollup IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	const calls = 20
	var entered, done sync.WaitGroup
	entered.Add(calls)
	s := &Server{Store: store, Clock: clock.Real(), Reads: NewReads(), Owner: func(string) (Owner, bool, error) {
		entered.Done()
		return Owner{Visibility: "all"}, true, nil
	}}
	ctx := authn.WithNeed(authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator}), authn.NeedRead)
	in := &inferencev1.GetMetricsRequest{DeploymentId: ids().New(id.Deployment)}
	for range calls {
		done.Go(func() {
			if _, err := s.GetMetrics(ctx, in); err != nil {
				t.Error(err)
			}
		})
	}
	entered.Wait()
	require.Eventually(t, func() bool { return store.Pool.Stat().AcquiredConns() >= maxReads }, time.Minute, time.Millisecond)
	entered.Add(1)
	soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = s.GetMetrics(soon, in)
	require.True(t, fault.Is(err, fault.Unavailable) && fault.HasCode(err, "traffic_busy"), "%v", err)
	require.LessOrEqual(t, store.Pool.Stat().AcquiredConns(), int32(maxReads))
	require.NoError(t, lock.Commit(t.Context()))
	done.Wait()
	require.LessOrEqual(t, store.Pool.Stat().TotalConns(), int32(maxReads+1))
}
