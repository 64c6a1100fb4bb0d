package assignment_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
)

func (b *harness) leases() *assignment.LeaseServer {
	count, err := assignment.NewRenewals(nil)
	require.NoError(b.t, err)
	return &assignment.LeaseServer{Pool: b.pool, Works: b.works, Every: 22 * time.Second, Count: count}
}

// lease adds the node nod_1 and mints the lease of wrk_1 on it.
func (b *harness) lease() string {
	b.t.Helper()
	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{cpu}', now())
		ON CONFLICT DO NOTHING`)
	b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
		VALUES ('nod_1', 'flt_1', 'n', 'ready', 8, 0, 0, 8, '', '', now()) ON CONFLICT DO NOTHING`)
	s, _, _ := b.agents()
	got, err := s.MintIngestToken(asNode(b.t.Context(), "nod_1"), mintOf("wrk_1"))
	require.NoError(b.t, err)
	return got.GetLeaseToken()
}

func TestRenewLease_conditions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  string // SQL
		known   bool
		renewed bool
	}{
		"running":                 {`SELECT 1`, true, true},
		"to be stopped":           {`UPDATE work SET desired = 'stopped'`, true, false},
		"released":                {`UPDATE work SET desired = 'gone', released_at = now()`, true, false},
		"node was removed":        {`DELETE FROM node`, false, false},
		"work was placed again":   {`UPDATE work SET lease_hash = NULL`, false, false},
		"work of another attempt": {`UPDATE work SET id = 'wrk_2'`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
			b.attempt("wrk_1")
			token := b.lease()
			require.Equal(t, 1, b.count(`work WHERE renewed_at IS NOT NULL`), "granting must begin the lease")
			b.exec(`UPDATE work SET renewed_at = NULL`)
			b.exec(c.change)
			got, err := b.leases().RenewLease(t.Context(), &jobsv1.RenewLeaseRequest{WorkId: "wrk_1", Token: token})
			require.Equal(t, c.renewed, b.count(`work WHERE renewed_at > now() - interval '1 minute'`) == 1)
			if !c.known {
				require.True(t, fault.HasCode(err, "lease_token"), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, !c.renewed, got.GetStop())
			require.EqualValues(t, 22, got.GetRenewS())
		})
	}
}

func TestRenewLease_countedByResult(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_1")
	token := b.lease()
	reader := sdkmetric.NewManualReader()
	leases := b.leases()
	var err error
	leases.Count, err = assignment.NewRenewals(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	renew := func(token string) {
		_, _ = leases.RenewLease(ctx, &jobsv1.RenewLeaseRequest{WorkId: "wrk_1", Token: token})
	}
	renew(token)
	renew(token)
	renew("x")
	b.exec(`UPDATE work SET desired = 'stopped'`)
	renew(token)
	b.exec(`UPDATE work SET lease_hash = NULL`)
	renew(token)
	cancel() // has the same effect as a database that does not respond
	renew(token)

	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	require.Equal(t, "jobs_lease_renewals_total", all.ScopeMetrics[0].Metrics[0].Name)
	sum, ok := all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64])
	require.True(t, ok)
	counted := map[string]int64{}
	for _, point := range sum.DataPoints {
		result, _ := point.Attributes.Value("result")
		counted[result.AsString()] = point.Value
	}
	require.Equal(t, map[string]int64{"renewed": 2, "refused": 2, "stopping": 1, "failed": 1}, counted)
}

func TestRenewLease_otherTokens(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_1")
	b.attempt("wrk_2")
	first := b.lease()
	second := b.lease()
	unissued, err := secret.Mint(rand.Reader, secret.KindLease)
	require.NoError(t, err)
	s, _, _ := b.agents()
	other, err := s.MintIngestToken(asNode(t.Context(), "nod_1"), mintOf("wrk_2"))
	require.NoError(t, err)
	b.exec(`UPDATE work SET renewed_at = NULL`)
	for name, token := range map[string]string{
		"replaced": first, "unissued": unissued.Reveal(), "of another work": other.GetLeaseToken(), "ingest token": other.GetToken(), "no token": "x",
	} {
		_, err := b.leases().RenewLease(t.Context(), &jobsv1.RenewLeaseRequest{WorkId: "wrk_1", Token: token})
		require.True(t, fault.Is(err, fault.Unauthenticated), "%s: %v", name, err)
	}
	_, err = b.leases().RenewLease(t.Context(), &jobsv1.RenewLeaseRequest{WorkId: "wrk_1", Token: second})
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`work WHERE renewed_at IS NOT NULL`))
	require.Zero(t, b.count(`work WHERE position($1 in work::text) > 0`, second), "only the hash of the token must be stored")
}

func TestMintIngestToken_silenceOfPool(t *testing.T) {
	t.Parallel()
	for pool, want := range map[string]int32{"cpu": 0, "continues": 0, "stops": 90} {
		b := newHarness(t)
		b.attempt("wrk_1")
		b.exec(`UPDATE work SET pool = $1`, pool)
		b.exec(`INSERT INTO pool (name, on_silence) VALUES ('stops', 'stop'), ('continues', 'continue')`)
		s, _, _ := b.agents()
		got, err := s.MintIngestToken(asNode(t.Context(), "nod_1"), mintOf("wrk_1"))
		require.NoError(t, err)
		require.Equal(t, want, got.GetSilenceS(), pool)
	}
}

func grantOf(w *assignment.Work) *jobsv1.GrantLeaseRequest {
	return &jobsv1.GrantLeaseRequest{WorkId: w.ID, Generation: w.Generation, Fence: w.Fence}
}

// placedEngine adds the node nod_1 and an engine on it.
func (b *harness) placedEngine(id string) *assignment.Work {
	b.t.Helper()
	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{cpu}', now())`)
	b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
		VALUES ('nod_1', 'flt_1', 'n', 'ready', 8, 0, 0, 8, '', '', now())`)
	b.put(orderOf(id, 1, running))
	b.exec(`UPDATE work SET node_id = 'nod_1', waiting = '', fence = 3 WHERE id = $1`, id)
	return b.get(id)
}

func TestGrantLease_conditions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string // SQL
		node   string
		kind   fault.Kind // empty if the lease is granted
	}{
		"its node":         {`SELECT 1`, "nod_1", ""},
		"running":          {`UPDATE work SET phase = 'running', running_at = now()`, "nod_1", ""},
		"other node":       {`SELECT 1`, "nod_2", fault.Absent},
		"attempt":          {`UPDATE work SET kind = 'attempt'`, "nod_1", fault.Conflict},
		"to be stopped":    {`UPDATE work SET desired = 'stopped'`, "nod_1", fault.Conflict},
		"released":         {`UPDATE work SET released_at = now()`, "nod_1", fault.Conflict},
		"older fence":      {`UPDATE work SET fence = 4`, "nod_1", fault.Conflict},
		"older generation": {`UPDATE work SET generation = 2`, "nod_1", fault.Conflict},
		"unknown work":     {`DELETE FROM work`, "nod_1", fault.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
			req := grantOf(b.placedEngine("wrk_1"))
			b.exec(c.change)
			s, _, _ := b.agents()
			got, err := s.GrantLease(asNode(t.Context(), c.node), req)
			if c.kind != "" {
				require.True(t, fault.Is(err, c.kind), "%v", err)
				require.Zero(t, b.count(`work WHERE lease_hash IS NOT NULL`))
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1, b.count(`work WHERE renewed_at IS NOT NULL`), "granting must begin the lease")
			b.exec(`UPDATE work SET renewed_at = NULL`)
			renewed, err := b.leases().RenewLease(t.Context(), &jobsv1.RenewLeaseRequest{WorkId: "wrk_1", Token: got.GetLeaseToken()})
			require.NoError(t, err)
			require.False(t, renewed.GetStop())
			require.Equal(t, 1, b.count(`work WHERE renewed_at IS NOT NULL`))
		})
	}
}

// The token of an engine's lease becomes void when another execution begins, so that the old process cannot renew the
// lease of that execution.
func TestEngineLease_endsWithExecution(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *harness, w *assignment.Work)
		known  bool
	}{
		"observed":       {func(_ *harness, w *assignment.Work) { w.Phase = "running" }, true},
		"new deadline":   {func(b *harness, w *assignment.Work) { now := b.clock.Now(); w.Deadline = &now }, true},
		"unplaced":       {func(_ *harness, w *assignment.Work) { w.Unplace() }, false},
		"placed again":   {func(_ *harness, w *assignment.Work) { w.Fence++ }, false},
		"new generation": {func(_ *harness, w *assignment.Work) { w.Generation++ }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
			w := b.placedEngine("wrk_1")
			s, _, _ := b.agents()
			got, err := s.GrantLease(asNode(t.Context(), "nod_1"), grantOf(w))
			require.NoError(t, err)
			before := w.Key
			c.change(b, w)
			require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
				return b.works.Save(ctx, tx, w, before, "nod_1", b.clock.Now())
			}))
			_, err = b.leases().RenewLease(t.Context(), &jobsv1.RenewLeaseRequest{WorkId: "wrk_1", Token: got.GetLeaseToken()})
			require.Equal(t, c.known, err == nil, "%v", err)
			require.Equal(t, c.known, b.get("wrk_1").RenewedAt != nil)
		})
	}
}
