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

// TestSignIn_splitServices tests sign-in with several instances of auth and while an instance is killed.
func TestSignIn_splitServices(t *testing.T) {
	t.Parallel()
	env := cheapHashing()
	s := testenv.Split(t, testenv.Options{Env: env})
	urls := replicas(t, s)
	t.Run("login limit shared by three replicas", func(t *testing.T) { requireSharedLimit(t, s, urls) })
	t.Run("X-Forwarded-For read from the right", func(t *testing.T) { requireProxyAddressUsed(t, s) })
	t.Run("one successor per refresh token while auth is killed", func(t *testing.T) { refreshConcurrently(t, s) })
}

// database connects to auth's database as the admin of the database server.
func database(t *testing.T, s *testenv.Installation) *pgx.Conn {
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
