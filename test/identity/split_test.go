package identity_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestSignInWhereServicesRunApart takes the figures that need several processes of auth, or one that dies.
func TestSignInWhereServicesRunApart(t *testing.T) {
	t.Parallel()
	env := cheap()
	s := testenv.Split(t, testenv.Options{Env: env})
	urls := replicas(t, s)
	t.Run("the limit is one over three replicas", func(t *testing.T) { theLimitIsOneOverReplicas(t, s, urls) })
	t.Run("a proxy's word counts from the right", func(t *testing.T) { aProxysWordCountsFromTheRight(t, s) })
	t.Run("a refresh token has one successor, whoever dies", func(t *testing.T) { oneSuccessor(t, s) })
}

// database is the auth schema of the split shape, as its server's admin sees it.
func database(t *testing.T, s *testenv.Stand) *pgx.Conn {
	t.Helper()
	raw, err := os.ReadFile(s.AdminURL())
	require.NoError(t, err)
	cfg, err := pgx.ParseConfig(strings.TrimSpace(string(raw)))
	require.NoError(t, err)
	own, err := os.ReadFile(s.Processes["auth"].Setting("SERVICE_AUTH_DATABASE_URL_FILE"))
	require.NoError(t, err)
	parsed, err := url.Parse(strings.TrimSpace(string(own)))
	require.NoError(t, err)
	cfg.Database = strings.TrimPrefix(parsed.Path, "/")
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}
