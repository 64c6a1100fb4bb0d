package project

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const prj = "prj_01aaaaaaaaaaaaaaaaaaaaaaaa"

func pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	p := pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth")
	_, err = p.Exec(t.Context(), `INSERT INTO project (id, key, name, visibility, created_at) VALUES ($1, 'speech', 'Speech', 'team', now())`, prj)
	require.NoError(t, err)
	return p
}

func TestPeerServer_GetProject(t *testing.T) {
	t.Parallel()
	s := &PeerServer{Pool: pool(t)}
	for _, name := range []string{"speech", prj} {
		p, err := s.GetProject(t.Context(), &authpeerv1.GetProjectRequest{Project: name})
		require.NoError(t, err, name)
		require.Equal(t, prj, p.GetId())
		require.Equal(t, "speech", p.GetKey())
		require.Equal(t, "Speech", p.GetName())
		require.Equal(t, "team", p.GetVisibility())
	}
}

func TestFind_absent(t *testing.T) {
	t.Parallel()
	p := pool(t)
	for _, name := range []string{"", "Speech", "speech ", "prj_", "prj_01bbbbbbbbbbbbbbbbbbbbbbbb", "' OR '1'='1"} {
		_, err := Find(t.Context(), p, name)
		require.True(t, fault.Is(err, fault.Absent), "%q: %v", name, err)
	}
}

func TestFind_zeroByteRefused(t *testing.T) {
	t.Parallel()
	_, err := Find(t.Context(), pool(t), "a\x00b")
	require.True(t, fault.Is(pg.Classify(err), fault.Refused), "%v", err)
}

func TestProjectKey_cannotLookLikeID(t *testing.T) {
	t.Parallel()
	_, err := pool(t).Exec(t.Context(), `INSERT INTO project (id, key, name, visibility, created_at) VALUES ('prj_x', 'prj_01x', 'x', 'all', now())`)
	require.ErrorContains(t, err, "project_key_check")
}
