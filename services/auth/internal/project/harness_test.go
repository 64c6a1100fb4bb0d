package project

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// The users of these tests: root is an admin, ann creates projects, tom is in the team of a project, and bob and eve
// are in no team.
const (
	root = "usr_00000000000000000000000001"
	ann  = "usr_00000000000000000000000002"
	bob  = "usr_00000000000000000000000003"
	tom  = "usr_00000000000000000000000004"
	eve  = "usr_00000000000000000000000005"

	crew = "team_00000000000000000000000001"
)

type harness struct {
	*Server

	t     *testing.T
	pool  *pgxpool.Pool
	clock *clock.Fake
	// holders are the fake services that copy visibilities, by name.
	holders map[string]*holder
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	p := pool(t)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	b := &harness{t: t, pool: p, clock: clk, holders: map[string]*holder{}, Server: &Server{
		Pool: p, Once: &idempotency.Once{Pool: p, Keys: idempotency.New(clk)}, Audit: audit.NewLog(clk, ids, "auth"), IDs: ids, Clock: clk,
		Copies: &VisibilitySync{Pool: p, Clock: clk},
	}}
	for _, name := range []string{"jobs", "ingest", "registry"} {
		b.holders[name] = &holder{latest: map[string]*commonpeerv1.SetProjectVisibilityRequest{}}
		b.Copies.Holders = append(b.Copies.Holders, Holder{Name: name, Client: b.holders[name]})
	}
	b.do(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES ($1, 'root', 'admin', 'x', now()),
		($2, 'ann', 'operator', 'x', now()), ($3, 'bob', 'operator', 'x', now()), ($4, 'tom', 'operator', 'x', now()),
		($5, 'eve', 'operator', 'x', now())`, root, ann, bob, tom, eve)
	b.do(`INSERT INTO team (id, key, name, created_at) VALUES ($1, 'crew', 'Crew', now())`, crew)
	b.do(`INSERT INTO team_member (team_id, account_id, role) VALUES ($1, $2, 'member')`, crew, tom)
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

func (b *harness) make(who, key string, change ...func(*authv1.CreateProjectRequest)) *authv1.Project {
	b.t.Helper()
	in := &authv1.CreateProjectRequest{Key: key, Name: "Project " + key}
	for _, c := range change {
		c(in)
	}
	made, err := b.CreateProject(b.as(who, authn.NeedRead), in)
	require.NoError(b.t, err)
	return made
}

func (b *harness) put(who string, p *authv1.Project, name string, role authv1.ProjectRole) error {
	b.t.Helper()
	_, err := b.PutProjectMember(b.as(who, authn.NeedManage), &authv1.PutProjectMemberRequest{ProjectId: p.GetId(), Username: name, Role: role})
	return err
}

func (b *harness) remove(who string, p *authv1.Project, name string) error {
	b.t.Helper()
	_, err := b.RemoveProjectMember(b.as(who, authn.NeedManage), &authv1.RemoveProjectMemberRequest{ProjectId: p.GetId(), Username: name})
	return err
}

func (b *harness) audits(action string) []audit.Row {
	b.t.Helper()
	rows, err := audit.List(b.t.Context(), b.pool, audit.Filter{Action: action}, request.Page{Limit: 50})
	require.NoError(b.t, err)
	return rows
}

func ofCrew(in *authv1.CreateProjectRequest) {
	team := crew
	in.TeamId = &team
}

func forAll(in *authv1.CreateProjectRequest) {
	in.Visibility = authv1.ProjectVisibility_PROJECT_VISIBILITY_ALL
}

// kindOf returns the kind of the error; it is empty for nil.
func kindOf(err error) fault.Kind {
	if err == nil {
		return ""
	}
	return fault.From(err).Kind
}
