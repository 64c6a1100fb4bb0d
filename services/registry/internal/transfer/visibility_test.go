package transfer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/recipe"
	"github.com/signalbox-dev/signalbox/services/registry/internal/rubric"
	"github.com/signalbox-dev/signalbox/services/registry/internal/solution"
)

func (b *harness) setVisibility(project, to string, version int64) error {
	_, err := b.server.SetProjectVisibility(b.t.Context(),
		&commonpeerv1.SetProjectVisibilityRequest{ProjectId: project, Visibility: to, Version: version})
	return err
}

func (b *harness) epoch() int64 {
	b.t.Helper()
	now, err := epoch.Current(b.t.Context(), b.pool)
	require.NoError(b.t, err)
	return now
}

// visible counts the rows visible to a user without any role in the projects.
func (b *harness) visible() (n int) {
	b.t.Helper()
	for _, table := range []string{"dataset", "model", "deployment", "environment", "rubric", "recipe", "solution", "solution_application"} {
		n += b.count(table+` WHERE `+access.Visible, false, "usr_9", []string{})
	}
	return n
}

// store inserts one object of each kind, each with the given version of the project's visibility.
func (b *harness) store(ctx context.Context, tx pgx.Tx, name, project string, version int64) error {
	o := access.Owner{UserID: "usr_1", UserName: "n", ProjectID: project, Project: project, Visibility: "all", VisibilityVersion: version}
	now := clock.Real().Now()
	_, _, putErr := solution.Store{}.Put(ctx, tx, &solution.Solution{Owner: o, ID: "sol_" + name, Name: name, Version: "1", Manifest: []byte(`{}`), CreatedAt: now})
	_, _, applyErr := solution.Store{}.Apply(ctx, tx, &solution.Application{Owner: o, ID: "sap_" + name, Digest: name, CreatedAt: now}, []byte(`{}`))
	return errors.Join(putErr, applyErr,
		environment.Store{}.Insert(ctx, tx, &environment.Environment{Owner: o, ID: "env_" + name, Name: name, CreatedAt: now}),
		recipe.Store{}.Publish(ctx, tx, &recipe.Version{Owner: o, Manifest: recipe.Manifest{Name: name, Version: "1", State: "active"}, LockedAt: now}),
		rubric.Store{}.Insert(ctx, tx, &rubric.Rubric{Owner: o, ID: "rub_" + name, Name: name, CreatedAt: now}),
		dataset.Store{}.Insert(ctx, tx, &dataset.Dataset{Owner: o, ID: "ds_" + name, Name: name, Format: "jsonl", CreatedAt: now}),
		model.Store{}.Insert(ctx, tx, &model.Model{Owner: o, ID: "mdl_" + name, Name: name, Task: "chat", CreatedAt: now}),
		(&deployment.Store{}).Insert(ctx, tx, &deployment.Deployment{Owner: o, ID: "dep_" + name, Name: name, State: deployment.StateServing, CreatedAt: now}),
	)
}

func (b *harness) add(name, project string, version int64) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return b.store(ctx, tx, name, project, version)
	}))
}

func TestSetProjectVisibility(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.add("a", "prj_1", 0)
	b.add("b", "prj_2", 0)
	require.Equal(t, 16, b.visible())
	before := b.epoch()
	require.NoError(t, b.setVisibility("prj_1", "team", 1))
	require.Equal(t, 8, b.visible())
	require.Greater(t, b.epoch(), before, "the epoch must be raised so that inference gets the new visibility")
	require.Equal(t, []int64{b.epoch()}, b.replicas.awaited, "the call waits until inference has applied the change")
	b.add("late", "prj_1", 0)
	require.Equal(t, 8, b.visible())
	b.add("ahead", "prj_1", 2)
	require.Equal(t, 16, b.visible())
	require.NoError(t, b.setVisibility("prj_1", "all", 2))
	require.NoError(t, b.setVisibility("prj_1", "team", 1))
	require.Equal(t, 32, b.visible(), "the highest version wins, regardless of the order of arrival")
	require.Zero(t, b.count(`audit`), "the registry writes no audit entry, because the auth service writes it")
}

func TestSetProjectVisibility_repeatWaitsAgain(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.add("a", "prj_1", 0)
	b.replicas.err = errors.New("cut off")
	require.ErrorIs(t, b.setVisibility("prj_1", "team", 1), b.replicas.err)
	require.Zero(t, b.visible(), "the change is stored")
	changed := b.epoch()
	b.replicas.err = nil
	require.NoError(t, b.setVisibility("prj_1", "team", 1))
	require.Equal(t, changed, b.epoch())
	require.Equal(t, []int64{changed, changed}, b.replicas.awaited)
}

// Rows whose visibility was read before the change and that are stored while the change runs are hidden too.
func TestSetProjectVisibility_coversConcurrentInserts(t *testing.T) {
	t.Parallel()
	b := open(t)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	require.NoError(t, b.store(t.Context(), tx, "a", "prj_1", 0))
	done := make(chan error, 1)
	go func() { done <- b.setVisibility("prj_1", "team", 1) }()
	require.Eventually(t, func() bool {
		return b.count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, time.Minute, time.Millisecond, "the change waits for the open insert")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	require.Zero(t, b.visible())
}
