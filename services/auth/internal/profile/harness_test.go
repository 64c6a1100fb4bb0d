package profile

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/services/auth/internal/loginlimit"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const (
	bob  = "usr_01k00000000000000000000001"
	eve  = "usr_01k00000000000000000000002"
	mine = "ses_01k00000000000000000000001"
	pass = "correct horse battery"
)

// headers records the headers that a handler sets.
type headers struct{ metadata.MD }

func (*headers) Method() string                   { return "" }
func (*headers) SendHeader(metadata.MD) error     { return nil }
func (*headers) SetTrailer(metadata.MD) error     { return nil }
func (h *headers) SetHeader(md metadata.MD) error { h.MD = metadata.Join(h.MD, md); return nil }

// harness is a server whose database contains the users bob and eve, with two sessions each.
type harness struct {
	*Server

	t      *testing.T
	pool   *pgxpool.Pool
	clock  *clock.Fake
	hasher *password.Hasher
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	d := &harness{t: t, pool: pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth"), clock: clk}
	d.hasher, err = password.New(password.Params{MemoryKiB: 64, Time: 1, Threads: 1}, 2, rand.Reader)
	require.NoError(t, err)
	trail := audit.NewLog(clk, ids, "auth")
	sessions := &session.Sessions{Pool: d.pool, Audit: trail, Clock: clk, IDs: ids}
	d.Server = &Server{Pool: d.pool, Sessions: sessions, Audit: trail, Passwords: &Passwords{
		Pool: d.pool, Limit: &loginlimit.Login{Pool: d.pool}, Hasher: d.hasher, Sessions: sessions, Audit: trail, On: true,
	}}
	hash, err := d.hasher.Hash(t.Context(), secret.New(pass))
	require.NoError(t, err)
	d.exec(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES
		($1, 'bob', 'operator', $3, now()), ($2, 'eve', 'operator', $3, now())`, bob, eve, hash)
	for i, s := range []string{mine, "ses_01k00000000000000000000002", "ses_01k00000000000000000000003", "ses_01k00000000000000000000004"} {
		at := clk.Now().Add(time.Duration(i) * time.Second)
		d.exec(`INSERT INTO session (id, account_id, client_address, created_at, last_used_at, expires_at)
			VALUES ($1, $2, '192.0.2.' || $3::int, $4::timestamptz, $4, $4::timestamptz + interval '30 days')`, s, []string{bob, eve}[i/2], i, at)
	}
	d.project("open", "all")
	d.project("team", "team")
	d.project("hidden", "team")
	return d
}

func (d *harness) exec(sql string, args ...any) {
	d.t.Helper()
	_, err := d.pool.Exec(d.t.Context(), sql, args...)
	require.NoError(d.t, err)
}

func (d *harness) count(from string, args ...any) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.pool.QueryRow(d.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

func (d *harness) project(key, visibility string) {
	d.t.Helper()
	d.exec(`INSERT INTO project (id, key, name, visibility, created_at) VALUES ('prj_' || $1, $1, $1, $2, now())`, key, visibility)
}

// caller returns bob as the caller. The session has the id `mine`, and bob has a role in the project prj_team.
func caller() *authn.Caller {
	return &authn.Caller{
		Kind: authn.KindUser, Subject: bob, Username: "bob", Role: authn.RoleOperator, SessionID: mine, ClientAddr: "192.0.2.9",
		Projects: []authn.ProjectRole{{Project: "prj_team", Role: authn.ProjectViewer}},
	}
}

func (d *harness) as(c *authn.Caller) context.Context {
	return grpc.NewContextWithServerTransportStream(authn.NewContext(d.t.Context(), c), &headers{})
}

func (d *harness) ctx() context.Context { return d.as(caller()) }
