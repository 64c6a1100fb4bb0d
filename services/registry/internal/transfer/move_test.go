package transfer_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
	"github.com/signalbox-dev/signalbox/services/registry/internal/transfer"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// replicas records the waits for inference replicas.
type replicas struct {
	settled int
	awaited []int64 // epochs
	err     error
}

func (r *replicas) Settle(context.Context) error { r.settled++; return r.err }

func (r *replicas) Await(_ context.Context, epoch int64) error {
	r.awaited = append(r.awaited, epoch)
	return r.err
}

type harness struct {
	t        *testing.T
	base     *pgtest.DB
	pool     *pgxpool.Pool
	server   *transfer.Server
	replicas *replicas
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	clk := clock.Real()
	ids := id.NewSource(clk, rand.Reader)
	base := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files})
	b := &harness{t: t, base: base, pool: base.Pool("registry"), replicas: &replicas{}}
	b.server = &transfer.Server{
		Owners:   &transfer.Owners{Pool: b.pool, Events: event.NewLog(clk, ids, "registry"), Audit: audit.NewLog(clk, ids, "registry")},
		Replicas: b.replicas,
	}
	return b
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// fill stores a dataset, two models, a deployment with a revision and one object of each other kind for a user.
func (b *harness) fill(user string) {
	b.t.Helper()
	const owned = `$1 || 'x', $1, 'name of ' || $1, 'prj_1', 'team', 'team', now()`
	b.exec(`INSERT INTO dataset (id, name, owner_id, owner_name, project_id, project, visibility, created_at, description, format)
		SELECT 'ds_' || $1, `+owned+`, '', 'jsonl'`, user)
	b.exec(`INSERT INTO dataset_version (id, dataset_id, version, state, digest, files, bytes, manifest, creator_id, created_at)
		VALUES ('dsv_' || $1, 'ds_' || $1, 'v1', 'ready', '', 0, 0, '{}', $1, now())`, user)
	for _, n := range []string{"a", "b"} {
		b.exec(`INSERT INTO model (id, name, owner_id, owner_name, project_id, project, visibility, created_at, description, task)
			SELECT 'mdl_' || $2 || $1, $2 || `+owned+`, '', 'chat'`, user, n)
	}
	b.exec(`INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, created_at, state)
		SELECT 'dep_' || $1, `+owned+`, 'serving'`, user)
	b.exec(`INSERT INTO environment (id, name, owner_id, owner_name, project_id, project, visibility, created_at, description)
		SELECT 'env_' || $1, `+owned+`, ''`, user)
	b.exec(`INSERT INTO package (id, sha256, owner_id, owner_name, project_id, project, visibility, created_at, size_bytes, state)
		SELECT 'pkg_' || $1, `+owned+`, 1, 'accepted'`, user)
	b.exec(`INSERT INTO rubric (id, name, owner_id, owner_name, project_id, project, visibility, created_at, description)
		SELECT 'rub_' || $1, `+owned+`, ''`, user)
	b.exec(`INSERT INTO recipe (id, name, owner_id, owner_name, project_id, project, visibility, locked_at, version, digest, manifest, requirements, state, tree_sha256, tree_bytes)
		SELECT 'rcp_' || $1, `+owned+`, '1', 'd', '{}', '', 'active', '', 0`, user)
	b.exec(`INSERT INTO solution (id, name, owner_id, owner_name, project_id, project, visibility, created_at, version, digest, manifest)
		SELECT 'sol_' || $1, `+owned+`, '1', '', '{}'`, user)
	b.exec(`INSERT INTO solution_application (id, solution, owner_id, owner_name, project_id, project, visibility, created_at, digest, snapshot, resolved)
		SELECT 'sap_' || $1, `+owned+`, $1, '{}', '{}'`, user)
	plan, err := json.Marshal(revision.Plan{OwnerID: user, ProjectID: "prj_1", ServedNames: []string{"m"}})
	require.NoError(b.t, err)
	b.exec(`INSERT INTO revision (id, deployment_id, number, state, model_id, model_version, serving, serving_digest, plan, work_id, desired, created_at)
		VALUES ('rev_' || $1, 'dep_' || $1, 1, 'ready', 'mdl_a' || $1, 1, '{}', '', $2, 'wrk_' || $1, 'running', now())`, user, plan)
	b.exec(`INSERT INTO playground_session (id, title, owner_id, owner_name, project_id, project, visibility, state, reason, idle_timeout_s,
			created_at, expires_at, last_activity_at)
		VALUES ('pg_' || $1, '', $1, 'name of ' || $1, 'prj_1', 'team', 'team', 'live', '', 600, now(), now(), now())`, user)
	b.exec(`INSERT INTO deployment_token (id, deployment_id, name, prefix, hash, created_at)
		VALUES ('tok_' || $1, 'dep_' || $1, 'ci', '', sha256($1::bytea), now())`, user)
}

func (b *harness) count(from string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

func format(c *commonpeerv1.OwnedCounts) string {
	text := ""
	for _, k := range c.GetCounts() {
		text += fmt.Sprintf("%s %d ", k.GetKind(), k.GetCount())
	}
	return text
}

func (b *harness) owned(userID string) string {
	b.t.Helper()
	c, err := b.server.CountOwned(b.t.Context(), &commonpeerv1.CountOwnedRequest{UserId: userID})
	require.NoError(b.t, err)
	return format(c)
}

func (b *harness) transfer(from, to string) (string, error) {
	ctx := authn.NewContext(b.t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_admin", Role: authn.RoleAdmin})
	c, err := b.server.TransferOwned(ctx, &commonpeerv1.TransferOwnedRequest{UserId: from, ToUserId: to, ToUsername: "name of " + to})
	return format(c), err
}

const (
	all  = "dataset 1 model 2 package 1 environment 1 rubric 1 recipe 1 solution 1 solution_application 1 deployment 1 playground_session 1 "
	none = "dataset 0 model 0 package 0 environment 0 rubric 0 recipe 0 solution 0 solution_application 0 deployment 0 playground_session 0 "
)

func TestTransferOwned_movesEverythingOfUser(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.fill("usr_1")
	b.fill("usr_3")
	before, err := epoch.Current(t.Context(), b.pool)
	require.NoError(t, err)
	moved, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, all, moved)
	require.Equal(t, []string{none, all, all}, []string{b.owned("usr_1"), b.owned("usr_2"), b.owned("usr_3")})
	for _, table := range []string{"dataset", "deployment", "environment", "rubric", "recipe", "solution", "solution_application", "package", "playground_session"} {
		require.Equal(t, 1, b.count(table+` WHERE owner_id = 'usr_2' AND owner_name = 'name of usr_2'`), table)
	}
	require.Equal(t, 1, b.count(`dataset_version WHERE creator_id = 'usr_1'`), "the creator of a version does not change")
	require.Equal(t, 2, b.count(`deployment_token WHERE revoked_at IS NULL`), "tokens remain valid")
	after, err := epoch.Current(t.Context(), b.pool)
	require.NoError(t, err)
	require.Greater(t, after, before, "the epoch must be raised so that inference gets the new owner")
	require.Equal(t, 1, b.replicas.settled)
}

func TestTransferOwned_recordsEventAndAuditEntry(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.fill("usr_1")
	_, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	for kind, n := range map[string]int{
		"dataset": 1, "model": 2, "deployment": 1, "environment": 1, "rubric": 1, "recipe": 1, "solution": 1, "package": 1, "solution_application": 1,
	} {
		require.Equal(t, n, b.count(`event WHERE subject_kind = $1 AND type = $2 AND actor_id = 'usr_admin'`, kind, transfer.EventTransferred), kind)
		require.Equal(t, n, b.count(`audit WHERE action = $1 || '.transfer' AND target_kind = $1 AND actor_id = 'usr_admin'
			AND after->>'owner_id' = 'usr_2' AND after->>'former_owner_id' = 'usr_1'`, kind), kind)
	}
	require.Equal(t, 1, b.count(`event WHERE subject_kind = 'playground session' AND type = $1 AND actor_id = 'usr_admin'`, transfer.EventTransferred))
	require.Equal(t, 1, b.count(`audit WHERE action = 'playground_session.transfer' AND target_kind = 'playground session' AND target_id = 'pg_usr_1'`))
	again, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, none, again)
	require.Equal(t, 11, b.count(`audit`), "a repeated transfer moves only what is left")
}

func TestTransferOwned_updatesRevisionPlans(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.fill("usr_1")
	b.fill("usr_3")
	_, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	var raw []byte
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT plan FROM revision WHERE id = 'rev_usr_1'`).Scan(&raw))
	var plan revision.Plan
	require.NoError(t, json.Unmarshal(raw, &plan))
	require.Equal(t, revision.Plan{OwnerID: "usr_2", ProjectID: "prj_1", ServedNames: []string{"m"}}, plan)
	require.Equal(t, 1, b.count(`revision WHERE plan->>'owner_id' = 'usr_3'`))
}

func TestTransferOwned_continuesAfterError(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.fill("usr_1")
	owner := b.base.OwnerPool("registry")
	_, err := owner.Exec(t.Context(), `ALTER TABLE deployment ADD CONSTRAINT not_usr_2 CHECK (owner_id <> 'usr_2')`)
	require.NoError(t, err)
	_, err = b.transfer("usr_1", "usr_2")
	require.Error(t, err)
	require.Equal(t, 1, b.count(`dataset WHERE owner_id = 'usr_2'`))
	require.Equal(t, 1, b.count(`audit WHERE action = 'dataset.transfer'`), "what was transferred is recorded")
	require.Equal(t, 1, b.count(`deployment WHERE owner_id = 'usr_1'`))
	require.Zero(t, b.count(`audit WHERE action = 'deployment.transfer'`)+b.replicas.settled)
	_, err = owner.Exec(t.Context(), `ALTER TABLE deployment DROP CONSTRAINT not_usr_2`)
	require.NoError(t, err)
	_, err = b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, []string{none, all}, []string{b.owned("usr_1"), b.owned("usr_2")})
	require.Equal(t, 11, b.count(`audit`), "each object is transferred once")
	b.replicas.err = errors.New("down")
	_, err = b.transfer("usr_2", "usr_4")
	require.ErrorIs(t, err, b.replicas.err)
}

// A transaction transfers at most 500 objects.
func TestTransferOwned_inSteps(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.fill("usr_1")
	_, err := b.pool.Exec(t.Context(), `INSERT INTO rubric SELECT (jsonb_populate_record(r, jsonb_build_object('id', 'rub_' || n, 'name', 'r' || n))).*
		FROM rubric r, generate_series(1, 1200) n`)
	require.NoError(t, err)
	moved, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Contains(t, moved, "rubric 1201")
	require.Equal(t, 1201, b.count(`audit WHERE action = 'rubric.transfer'`))
	require.Equal(t, 500, b.count(`(SELECT count(*) AS n FROM rubric WHERE owner_id = 'usr_2' GROUP BY xmin::text ORDER BY n DESC LIMIT 1) s, generate_series(1, s.n)`))
}
