package testenv

import (
	"context"
	"crypto/rand"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// StartReplica starts a second instance of a service on the same host. The parameter `of` is the name of the first
// instance. The process has the program and the settings of the first instance; the given settings replace some of
// these.
func (s *Installation) StartReplica(of, name string, settings map[string]string) *Process {
	s.T.Helper()
	p := s.replica(of, name, settings)
	p.Start()
	return p
}

// withHosts is a script that replaces /etc/hosts by the file in its first argument and then runs the other arguments.
const withHosts = `mount --bind "$0" /etc/hosts && exec "$@"`

// StartReplicaKnowing is like StartReplica, but the process knows the addresses of a host name, in this order.
func (s *Installation) StartReplicaKnowing(host string, addresses []string, of, name string, settings map[string]string) *Process {
	s.T.Helper()
	p := s.replica(of, name, settings)
	var file strings.Builder
	for _, address := range addresses {
		file.WriteString(address + " " + host + "\n")
	}
	path := filepath.Join(s.Dir, name+".hosts")
	require.NoError(s.T, os.WriteFile(path, []byte(file.String()), 0o600))
	require.NoError(s.T, os.Chmod(path, 0o644)) // the user of the process reads it
	p.argv = append([]string{"unshare", "--map-root-user", "--mount", "sh", "-c", withHosts, path}, p.argv...)
	p.Start()
	return p
}

// replica adds a second instance of a service, as StartReplica describes.
func (s *Installation) replica(of, name string, settings map[string]string) *Process {
	s.T.Helper()
	require.NotContains(s.T, s.Processes, name)
	like := s.Processes[of]
	env := slices.Clone(like.env)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		env = append(env, key+"="+settings[key])
	}
	p := newProcess(s.T, s.Dir, name, env, slices.Clone(like.argv)...)
	p.dir, p.cred, p.before = like.dir, like.cred, slices.Clone(like.before)
	s.Processes[name], s.Order = p, append(s.Order, name)
	return p
}

// InstallUpgrade installs the programs of this commit on the host and runs the setup command that precedes the restarts of
// an upgrade, as deploy/README.md describes.
func (s *Installation) InstallUpgrade() {
	s.T.Helper()
	h := s.host
	h.replacements = append([]string{"/usr/bin/", h.programs(programs(s.T), "bin-upgrade") + "/"}, h.replacements...)
	s.SetUpDatabase()
}

// SetUpDatabase runs the command that creates what separate services need in the database. The command does not change
// what already exists.
func (s *Installation) SetUpDatabase() {
	s.T.Helper()
	s.host.setupDatabase(s.AdminURL())
}

// Upgrade starts a process, which must have ended, with the program that InstallUpgrade has installed.
func (s *Installation) Upgrade(name string) {
	s.T.Helper()
	p := s.Processes[name]
	p.former = p.argv[0]
	p.run(s.host.at("/usr/bin/" + filepath.Base(p.argv[0])))
}

// Downgrade starts a process that Upgrade has started, and that must have ended, with the program that it had before.
func (s *Installation) Downgrade(name string) {
	s.T.Helper()
	p := s.Processes[name]
	require.NotEmpty(s.T, p.former, "%s was not upgraded", name)
	p.run(p.former)
}

// run starts a process, which must have ended, with another program.
func (p *Process) run(program string) {
	p.argv[0] = program
	if len(p.before) > 0 {
		p.before[0] = program
	}
	p.prepare()
	p.Start()
}

// Setting returns the value of a setting in the environment of the process, or "" if it is not set.
func (p *Process) Setting(name string) string {
	for _, e := range slices.Backward(p.env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// Connect connects to the database of the installation as the superuser.
func (s *Installation) Connect(ctx context.Context) *pgx.Conn {
	s.T.Helper()
	var u *url.URL
	if s.Postgres != nil {
		var err error
		u, err = url.Parse(s.Postgres.AdminURL().Reveal())
		require.NoError(s.T, err)
		u.Path = "/signalbox"
	} else {
		read := func(name string) string {
			raw, err := os.ReadFile(filepath.Join(s.Dir, "data", "postgres", name))
			require.NoError(s.T, err)
			return strings.TrimSpace(string(raw))
		}
		u = &url.URL{
			Scheme: "postgres", User: url.UserPassword("postgres", read("password")), Host: net.JoinHostPort("127.0.0.1", read("port")),
			Path: "/signalbox", RawQuery: "sslmode=disable",
		}
	}
	conn, err := pgx.Connect(ctx, u.String())
	require.NoError(s.T, err)
	s.T.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	return conn
}

// SignInLink inserts a sign-in link of the first admin into the database and returns its secret, because services in
// processes of their own create none.
func (s *Installation) SignInLink(ctx context.Context) string {
	s.T.Helper()
	token, err := secret.Mint(rand.Reader, secret.KindLink)
	require.NoError(s.T, err)
	conn := s.Connect(ctx)
	_, err = conn.Exec(ctx, `INSERT INTO auth.sign_in_link (hash, account_id, account_epoch, created_at, expires_at)
		SELECT $1, id, epoch, now(), now() + interval '1 hour' FROM auth.account WHERE role = 'admin' AND disabled_at IS NULL ORDER BY created_at, id LIMIT 1`,
		secret.Hash(token.Reveal()))
	require.NoError(s.T, err)
	require.NoError(s.T, conn.Close(ctx))
	return token.Reveal()
}

// AdminURL returns the path of the file with the admin URL of the database server. The file exists only if
// each service has its own process.
func (s *Installation) AdminURL() string { return filepath.Join(s.Dir, "admin-url") }

// Run replaces the program of the process. It takes effect at the next start.
func (p *Process) Run(program string) { p.argv[0] = program }
