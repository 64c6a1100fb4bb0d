package account

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// members returns a database with the accounts usr_1 and usr_2, the teams a, b and c, and a project of each team.
func members(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := database(t).Pool("auth")
	for _, sql := range []string{
		`INSERT INTO account (id, username, role, password_hash, created_at)
			SELECT 'usr_' || n, 'user-' || n, 'operator', 'x', now() FROM generate_series(1, 2) n`,
		`INSERT INTO team (id, key, name, created_at) SELECT 'team_' || k, k || k, k, now() FROM unnest(ARRAY['a', 'b', 'c']) k`,
		`INSERT INTO project (id, key, name, visibility, created_at, team_id)
			SELECT 'prj_' || k, k || k, k, 'team', now(), 'team_' || k FROM unnest(ARRAY['a', 'b', 'c']) k`,
	} {
		do(t, pool, sql)
	}
	return pool
}

func do(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func join(t *testing.T, pool *pgxpool.Pool, team, account, role string) (ok bool) {
	t.Helper()
	require.NoError(t, pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		ok, err = JoinTeam(ctx, tx, team, account, role)
		return err
	}))
	return ok
}

func sync1(t *testing.T, pool *pgxpool.Pool, keys ...string) (left []string) {
	t.Helper()
	require.NoError(t, pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		left, err = SyncTeams(ctx, tx, "usr_1", keys)
		return err
	}))
	return left
}

func membershipOf(t *testing.T, pool *pgxpool.Pool, account string) *authn.Caller {
	t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: account, Teams: []string{"old"}, Projects: []authn.ProjectRole{{Project: "old"}}}
	require.NoError(t, LoadMemberships(t.Context(), pool, c))
	return c
}

func TestLoadMemberships_highestProjectRole(t *testing.T) {
	t.Parallel()
	pool := members(t)
	require.True(t, join(t, pool, "team_a", "usr_1", TeamMember))
	require.True(t, join(t, pool, "team_b", "usr_1", TeamLead))
	require.True(t, join(t, pool, "team_c", "usr_2", TeamLead))
	for project, role := range map[string]string{"prj_a": "viewer", "prj_b": "owner"} {
		do(t, pool, `INSERT INTO membership (project_id, account_id, role) VALUES ($1, 'usr_1', $2)`, project, role)
	}
	one := membershipOf(t, pool, "usr_1")
	require.Equal(t, []authn.ProjectRole{{Project: "prj_a", Role: "editor"}, {Project: "prj_b", Role: "owner"}}, one.Projects)
	require.Equal(t, []string{"team_a", "team_b"}, one.Teams)
	require.Equal(t, []string{"team_b"}, one.LeadOf)
	two := membershipOf(t, pool, "usr_2")
	require.Equal(t, []authn.ProjectRole{{Project: "prj_c", Role: "editor"}}, two.Projects, "a team lead does not own the team's projects")

	do(t, pool, `DELETE FROM team_member WHERE account_id = 'usr_1'`)
	require.Equal(t, []authn.ProjectRole{{Project: "prj_a", Role: "viewer"}, {Project: "prj_b", Role: "owner"}}, membershipOf(t, pool, "usr_1").Projects)
	require.Empty(t, membershipOf(t, pool, "usr_9").Projects)
	require.Empty(t, membershipOf(t, pool, "usr_9").Teams)
}

func TestMemberships_cut(t *testing.T) {
	t.Parallel()
	pool := members(t)
	do(t, pool, `WITH made AS (INSERT INTO project (id, key, name, visibility, created_at, team_id)
			SELECT 'prj_' || lpad(n::text, 26, '0'), 'key-' || n, 'x', 'team', now(), CASE WHEN n % 2 = 0 THEN 'team_a' END
			FROM generate_series(1, 600) n RETURNING id, team_id)
		INSERT INTO membership (project_id, account_id, role) SELECT id, 'usr_1', 'viewer' FROM made WHERE team_id IS NULL`)
	join(t, pool, "team_a", "usr_1", TeamMember)
	cut, err := Memberships(t.Context(), pool, "usr_1")
	require.NoError(t, err)
	require.Len(t, cut, authn.MaxProjects+1, "one role more than the limit shows the signer that the list is cut")
	all, err := AllMemberships(t.Context(), pool, "usr_1")
	require.NoError(t, err)
	require.Len(t, all, 601, "AllMemberships returns all of them")
	require.Equal(t, cut, all[:len(cut)])
}

func TestSyncTeams_keepsMembershipsSetByHand(t *testing.T) {
	t.Parallel()
	pool := members(t)
	join(t, pool, "team_b", "usr_1", TeamLead)
	require.Equal(t, []string{"none"}, sync1(t, pool, "aa", "bb", "none", "cc"))
	got := membershipOf(t, pool, "usr_1")
	require.Equal(t, []string{"team_a", "team_b", "team_c"}, got.Teams)
	require.Equal(t, []string{"team_b"}, got.LeadOf, "memberships set by hand stay")

	join(t, pool, "team_c", "usr_1", TeamMember)
	require.Empty(t, sync1(t, pool))
	require.Equal(t, []string{"team_b", "team_c"}, membershipOf(t, pool, "usr_1").Teams, "the membership in team c was set by hand, so it stays")
}

// Two changes to the memberships of an account run one after the other, so that the second change counts the
// memberships that the first one added.
func TestMembershipChangesLockAccount(t *testing.T) {
	t.Parallel()
	pool := members(t)
	held := errors.New("held")
	for name, change := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"join": func(ctx context.Context, tx pgx.Tx) error {
			_, err := JoinTeam(ctx, tx, "team_a", "usr_1", TeamMember)
			return err
		},
		"sync": func(ctx context.Context, tx pgx.Tx) error { _, err := SyncTeams(ctx, tx, "usr_1", nil); return err },
	} {
		err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			if err := change(ctx, tx); err != nil {
				return err
			}
			_, err := pool.Exec(ctx, `SELECT FROM account WHERE id = 'usr_1' FOR NO KEY UPDATE NOWAIT`)
			if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "55P03" {
				return held
			}
			return err
		})
		require.ErrorIs(t, err, held, name)
	}
}

func TestJoinTeam_limit(t *testing.T) {
	t.Parallel()
	pool := members(t)
	do(t, pool, `INSERT INTO team (id, key, name, created_at) SELECT 'team_' || n, 'k-' || lpad(n::text, 3, '0'), 'x', now() FROM generate_series(1, 150) n`)
	do(t, pool, `INSERT INTO team_member (team_id, account_id, role) SELECT 'team_' || n, 'usr_1', 'member' FROM generate_series(1, 95) n`)
	var wg sync.WaitGroup
	for n := 96; n <= 110; n++ {
		wg.Go(func() {
			err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
				_, err := JoinTeam(ctx, tx, fmt.Sprintf("team_%d", n), "usr_1", TeamMember)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, membershipOf(t, pool, "usr_1").Teams, authn.MaxTeams)
	var rows int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM team_member WHERE account_id = 'usr_1'`).Scan(&rows))
	require.Equal(t, authn.MaxTeams, rows)
	require.True(t, join(t, pool, "team_1", "usr_1", TeamLead), "a new role in a team does not count as another team")
	require.False(t, join(t, pool, "team_150", "usr_1", TeamMember))
	require.Equal(t, []string{"k-150"}, sync1(t, pool, "k-150"), "the limit also applies to teams from the provider's groups")
	require.True(t, join(t, pool, "team_150", "usr_2", TeamMember))
}

func TestNewLoader_accountsWithTeams(t *testing.T) {
	t.Parallel()
	pool := members(t)
	require.True(t, join(t, pool, "team_c", "usr_1", TeamMember))
	require.True(t, join(t, pool, "team_a", "usr_1", TeamLead))
	want := map[string]WithTeams{}
	for _, id := range []string{"usr_1", "usr_2"} {
		a, err := ByID(t.Context(), pool, id)
		require.NoError(t, err)
		keys, err := TeamKeys(t.Context(), pool, id)
		require.NoError(t, err)
		want[id] = WithTeams{Account: a, Teams: keys}
		one, ok, err := NewLoader(pool).Get(t.Context(), id)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want[id], one)
	}
	_, ok, err := NewLoader(pool).Get(t.Context(), "usr_9")
	require.NoError(t, err)
	require.False(t, ok)
	together, err := loadWithTeams(t.Context(), pool, []string{"usr_1", "usr_2", "usr_9"})
	require.NoError(t, err)
	require.Equal(t, want, together)
}
