package team

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// The users of these tests: root is an admin, lea leads the team, max is a member, and eve is not a member.
const (
	root = "usr_00000000000000000000000001"
	lea  = "usr_00000000000000000000000002"
	maxi = "usr_00000000000000000000000003"
	eve  = "usr_00000000000000000000000004"
)

type harness struct {
	*Server

	t    *testing.T
	pool *pgxpool.Pool
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth")
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	b := &harness{t: t, pool: pool, Server: &Server{
		Pool: pool, Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(clk)}, Audit: audit.NewLog(clk, ids, "auth"), IDs: ids, Clock: clk,
	}}
	b.do(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES ($1, 'root', 'admin', 'x', now()),
		($2, 'lea', 'operator', 'x', now()), ($3, 'max', 'operator', 'x', now()), ($4, 'eve', 'operator', 'x', now())`, root, lea, maxi, eve)
	return b
}

func (b *harness) do(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// as returns the context of a user's call to a method that needs these rights. It contains the user's current roles.
func (b *harness) as(user string, need authn.Need) context.Context {
	b.t.Helper()
	a, err := account.ByID(b.t.Context(), b.pool, user)
	require.NoError(b.t, err)
	c := &authn.Caller{Kind: authn.KindUser, Subject: a.ID, Username: a.Username, Role: a.Role}
	require.NoError(b.t, account.LoadMemberships(b.t.Context(), b.pool, c))
	return authn.WithNeed(authn.NewContext(b.t.Context(), c), need)
}

// make creates a team with its lead and a member.
func (b *harness) make(key string) *authv1.Team {
	b.t.Helper()
	made, err := b.CreateTeam(b.as(root, authn.NeedNone), &authv1.CreateTeamRequest{Key: key, Name: "Team " + key})
	require.NoError(b.t, err)
	b.put(made, "lea", authv1.TeamRole_TEAM_ROLE_LEAD)
	return b.put(made, "max", authv1.TeamRole_TEAM_ROLE_MEMBER)
}

func (b *harness) put(team *authv1.Team, name string, role authv1.TeamRole) *authv1.Team {
	b.t.Helper()
	got, err := b.PutTeamMember(b.as(root, authn.NeedManage), &authv1.PutTeamMemberRequest{TeamId: team.GetId(), Username: name, Role: role})
	require.NoError(b.t, err)
	return got
}

func (b *harness) audits(action string) []audit.Row {
	b.t.Helper()
	rows, err := audit.List(b.t.Context(), b.pool, audit.Filter{Action: action}, request.Page{Limit: 50})
	require.NoError(b.t, err)
	return rows
}

// kindOf returns the kind of the error; it is empty for nil.
func kindOf(err error) fault.Kind {
	if err == nil {
		return ""
	}
	return fault.From(err).Kind
}
