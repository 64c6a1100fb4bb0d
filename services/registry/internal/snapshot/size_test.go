package snapshot

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
)

// fill inserts the given numbers of deployments and of live tokens.
func (b *harness) fill(deployments, tokens int) {
	b.t.Helper()
	_, err := b.Pool.Exec(b.t.Context(), `INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, created_at)
		SELECT 'dep_fill' || lpad(n::text, 22, '0'), 'fill-' || n, 'usr_1', 'n', 'prj_1', 'team', 'team', 'serving', now()
		FROM generate_series(0, $1::int - 1) AS n`, deployments)
	require.NoError(b.t, err)
	_, err = b.Pool.Exec(b.t.Context(), `INSERT INTO deployment_token (id, deployment_id, name, prefix, hash, created_at)
		SELECT 'dtk_fill' || lpad(n::text, 22, '0'), 'dep_fill' || lpad((n % $1::int)::text, 22, '0'), 'a token with a name', 'sbd_0000',
			sha256(n::text::bytea), now()
		FROM generate_series(1, $2::int) AS n`, deployments, tokens)
	require.NoError(b.t, err)
}

// view is the state that a replica builds from the messages.
type view struct {
	epoch       int64
	deployments map[string]bool
	tokens      map[string]string // ids by hash
	largest     int
	messages    int
}

func newView() *view { return &view{} }

// take receives messages until a state is complete.
func (v *view) take(r *replica) *registrypeerv1.WatchResponse {
	for {
		out := r.next()
		v.messages++
		v.largest = max(v.largest, proto.Size(out))
		in := out.GetSnapshot()
		if !in.GetContinued() {
			v.deployments, v.tokens = map[string]bool{}, map[string]string{}
		}
		for _, d := range in.GetDeployments() {
			v.deployments[d.GetId()] = true
		}
		for _, token := range in.GetTokens() {
			v.tokens[string(token.GetHash())] = token.GetId()
		}
		for _, id := range in.GetDeletedDeploymentIds() {
			delete(v.deployments, id)
		}
		for _, h := range in.GetRevokedHashes() {
			delete(v.tokens, string(h))
		}
		if !in.GetMore() {
			v.epoch = out.GetEpoch()
			return out
		}
	}
}

func TestWatch_largeState(t *testing.T) {
	t.Parallel()
	b := open(t)
	const deployments, tokens = 10_000, 100_000
	b.fill(deployments, tokens)
	r, state := b.connect(), newView()
	r.request(0, 1)
	first := state.take(r)
	require.EqualValues(t, 1, first.GetRenewed(), "the lease comes with the last part")
	require.Len(t, state.deployments, deployments+1)
	require.Len(t, state.tokens, tokens)
	require.Less(t, state.largest, rpc.MaxMessage/2)
	t.Logf("%d messages, the largest has %d bytes", state.messages, state.largest)
	r.request(state.epoch, 0)

	state.messages, state.largest = 0, 0
	token := b.change()
	b.wake()
	state.take(r)
	require.Equal(t, token.ID, state.tokens[string(token.Hash)], "the replica must receive a new token")
	require.Len(t, state.tokens, tokens+1)
	require.Equal(t, 1, state.messages)
	require.Less(t, state.largest, 1<<10, "a message with one change must be small")

	from, err := b.changer.Revoke(t.Context(), b.d.ID, token.ID)
	require.NoError(t, err)
	acknowledged := make(chan error, 1)
	go func() { acknowledged <- b.Ledger.Await(t.Context(), from) }()
	b.wake()
	state.take(r)
	require.Equal(t, from, state.epoch)
	require.NotContains(t, state.tokens, string(token.Hash))
	require.Empty(t, acknowledged, "the replica has not acknowledged the revocation yet")
	r.request(from, 0)
	r.quiet(from, 2)
	b.clock.Advance(lookAgain)
	require.NoError(t, <-acknowledged)
}

// If more than MaxChanges rows have changed, the complete state is sent.
func TestWatch_manyChangesSendCompleteState(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.begin()
	b.fill(1, epoch.MaxChanges)
	bump := func(c epoch.Changes) *view {
		require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error {
			_, err := epoch.Bump(ctx, tx, c)
			return err
		}))
		b.wake()
		state := &view{deployments: map[string]bool{}, tokens: map[string]string{}}
		state.take(r)
		return state
	}
	ids := column(t, b, `SELECT id FROM deployment_token`)
	changes := bump(epoch.ChangedTokens(ids...))
	require.Len(t, changes.tokens, epoch.MaxChanges)
	require.Empty(t, changes.deployments, "only changes are sent")
	require.Less(t, changes.largest, rpc.MaxMessage/2)
	complete := bump(epoch.Changes{Tokens: ids, Deployments: []string{b.d.ID}})
	require.Len(t, complete.tokens, epoch.MaxChanges)
	require.Len(t, complete.deployments, 2)
}

func column(t *testing.T, b *harness, sql string) []string {
	t.Helper()
	rows, err := b.Pool.Query(t.Context(), sql)
	require.NoError(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return out
}

func TestLedger_Sweep_keepsChangesOfLatestEpochs(t *testing.T) {
	t.Parallel()
	b := open(t)
	_, err := b.Pool.Exec(t.Context(), `INSERT INTO snapshot_change (epoch, token_id) SELECT n, 'tok' FROM generate_series(100, 30000) AS n`)
	require.NoError(t, err)
	_, err = b.Pool.Exec(t.Context(), `UPDATE snapshot_epoch SET epoch = 30000`)
	require.NoError(t, err)
	require.NoError(t, b.Ledger.Sweep(t.Context()))
	var n int
	require.NoError(t, b.Pool.QueryRow(t.Context(), `SELECT count(*) FROM snapshot_change`).Scan(&n))
	require.Equal(t, 2*epoch.MaxChanges, n)
	for from, want := range map[int64]bool{29_000: true, 20_001: true, 9_999: false, 50: false} {
		_, known, err := epoch.ChangesBetween(pg.WithOffset(t.Context(), 0), b.Pool, from, 30_000)
		require.NoError(t, err)
		require.Equal(t, want, known, from)
	}
}
