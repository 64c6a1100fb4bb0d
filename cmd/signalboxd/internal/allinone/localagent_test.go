package allinone

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

func TestDaemon_ports(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	public := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for url, want := range map[string][]string{
		"postgres://admin:p@127.0.0.1:6543/postgres": {public, "6543"},
		"postgres://admin:p@localhost/postgres":      {public, "5432"},
		"postgres://admin:p@db.example:6543/x":       {public},
	} {
		d := &daemon{settings: &Settings{Postgres: Postgres{AdminURL: secret.New(url)}}, listener: l}
		require.Equal(t, want, d.ports(), url)
	}
}

func TestDaemon_avoided(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		postgres, redis string
		want            []string
	}{
		{"", "", nil},
		{"postgres://admin:p@127.0.0.1:6543/postgres", "redis://localhost:6379/0", nil},
		{"postgres://admin:p@db.example/x", "redis://:p@10.0.0.7/0", []string{"db.example:5432", "10.0.0.7:6379"}},
		{"postgres://admin:p@[2001:db8::1]:6543/x", "", []string{"[2001:db8::1]:6543"}},
		{"postgres:///x?host=/run/postgresql", "", nil},
	} {
		d := &daemon{settings: &Settings{
			Postgres: Postgres{AdminURL: secret.New(c.postgres)}, Ingest: ingest.Config{RedisURL: secret.New(c.redis)},
		}}
		require.Equal(t, c.want, d.avoided(), c.postgres)
	}
}
