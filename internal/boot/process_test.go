package boot

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// output is a buffer that is safe for concurrent use.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// call runs realMain until it returns, and returns its output.
func call(t *testing.T, spec Spec, env map[string]string, args ...string) (out, errOut string, err error) {
	t.Helper()
	o, e := &output{}, &output{}
	if spec.Config == nil {
		spec.Config = &struct{}{}
	}
	err = realMain(t.Context(), spec, conf.Map(env), args, o, e)
	return o.String(), e.String(), err
}

// installation creates a folder with certificates. It returns the CA and the settings of a process that uses them.
func installation(t *testing.T, name string) (*pki.CA, map[string]string) {
	t.Helper()
	dir := t.TempDir()
	now := clock.Real().Now()
	ca, err := pki.NewCA(now, pki.DefaultCALife)
	require.NoError(t, err)
	require.NoError(t, pki.WriteFile(filepath.Join(dir, "ca.pem"), ca.CertPEM()))
	for _, one := range []string{name, "gateway", "jobs"} {
		pair, err := ca.IssueService(one, now, pki.DefaultServiceLife)
		require.NoError(t, err)
		require.NoError(t, pair.Save(dir, one))
	}
	return ca, map[string]string{
		"SERVICE_TLS_CA": filepath.Join(dir, "ca.pem"), "SERVICE_TLS_CERT": filepath.Join(dir, name+".pem"),
		"SERVICE_TLS_KEY": filepath.Join(dir, name+"-key.pem"), "SERVICE_PUBLIC_URL": "https://signalbox.example",
		"SERVICE_BLOB_ROOT": filepath.Join(dir, "objects"), "SERVICE_BLOB_SIGNING_KEY": "0123456789abcdef0123456789abcdef",
		"SERVICE_AUDIT_KEY": seed('a').Reveal(), "SERVICE_AUDIT_DIR": filepath.Join(dir, "audit"),
	}
}

func with(env map[string]string, pairs ...string) map[string]string {
	out := maps.Clone(env)
	for n := 0; n < len(pairs); n += 2 {
		if out[pairs[n]] = pairs[n+1]; pairs[n+1] == "" {
			delete(out, pairs[n])
		}
	}
	return out
}

func TestFlags(t *testing.T) {
	t.Parallel()
	spec := Spec{Name: "auth"}
	out, _, err := call(t, spec, nil, "--version")
	require.NoError(t, err)
	require.Equal(t, version.Server()+"\n", out)
	_, errOut, err := call(t, spec, nil, "--help")
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, errOut, "print-config")
	_, errOut, err = call(t, spec, nil, "--frobnicate")
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, errOut, "frobnicate")
	for _, args := range [][]string{{"migrat"}, {"serve"}, {"migrate", "now"}} {
		_, _, err = call(t, spec, nil, args...)
		require.ErrorContains(t, err, "unknown command", "%v", args)
	}
}

func TestProcess_printConfigHidesSecrets(t *testing.T) {
	t.Parallel()
	_, env := installation(t, "auth")
	out, _, err := call(t, Spec{Name: "auth"}, with(env, "SERVICE_AUTH_DATABASE_URL", "postgres://auth:hunter2@db/x"), "--print-config")
	require.NoError(t, err)
	require.Contains(t, out, "https://signalbox.example")
	require.Contains(t, out, "SERVICE_AUTH_DATABASE_URL")
	require.NotContains(t, out, "hunter2")
	require.NotContains(t, out, seed('a').Reveal())
}

func TestProcess_missingSettings(t *testing.T) {
	t.Parallel()
	_, env := installation(t, "auth")
	migrations := func() (fs.FS, error) { return fstest.MapFS{}, nil }
	for name, tc := range map[string]struct {
		env        map[string]string
		migrations func() (fs.FS, error)
		args       []string
		want       string
	}{
		"certificates":     {with(env, "SERVICE_TLS_CA", "", "SERVICE_TLS_CERT", "", "SERVICE_TLS_KEY", ""), nil, nil, "SERVICE_TLS_CA, SERVICE_TLS_CERT and SERVICE_TLS_KEY must be set"},
		"public URL":       {with(env, "SERVICE_PUBLIC_URL", ""), nil, nil, "SERVICE_PUBLIC_URL"},
		"object store":     {with(env, "SERVICE_BLOB_ROOT", ""), nil, nil, "BLOB_ROOT"},
		"invalid keyring":  {with(env, "SERVICE_KEYRING", "k1 short"), nil, nil, "SERVICE_KEYRING"},
		"audit key":        {with(env, "SERVICE_AUDIT_KEY", ""), migrations, nil, "SERVICE_AUDIT_KEY"},
		"database":         {env, migrations, nil, "SERVICE_AUTH_DATABASE_URL must be set"},
		"owner":            {env, migrations, []string{"migrate"}, "SERVICE_AUTH_DATABASE_OWNER_URL must be set"},
		"schema":           {env, nil, []string{"migrate"}, "auth has no schema"},
		"migrations break": {with(env, "SERVICE_AUTH_DATABASE_OWNER_URL", "postgres://x"), func() (fs.FS, error) { return nil, errors.New("torn") }, []string{"migrate"}, "torn"},
	} {
		_, _, err := call(t, Spec{Name: "auth", Migrations: tc.migrations}, tc.env, tc.args...)
		require.ErrorContains(t, err, tc.want, name)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"00001_thing.sql": &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE thing (n int);\n")}}
	db := pgtest.New(t, pgtest.Schema{Name: "auth"})
	_, env := installation(t, "auth")
	env = with(env, "SERVICE_AUTH_DATABASE_OWNER_URL", db.OwnerURL("auth").Reveal())
	for range 2 {
		_, _, err := call(t, Spec{Name: "auth", Migrations: func() (fs.FS, error) { return files, nil }}, env, "migrate")
		require.NoError(t, err)
	}
	_, err := db.Pool("auth").Exec(t.Context(), `INSERT INTO thing (n) VALUES (1)`)
	require.NoError(t, err, "the serving role may write to the owner's tables")
}

// startProcess runs realMain until the function stop is called.
func startProcess(t *testing.T, spec Spec, env map[string]string) (log *output, stop func() error) {
	t.Helper()
	log = &output{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- realMain(ctx, spec, conf.Map(env), nil, io.Discard, log) }()
	t.Cleanup(cancel)
	var once sync.Once
	var ended error
	stop = func() error {
		cancel()
		once.Do(func() { ended = <-done })
		return ended
	}
	return log, stop
}

func free(t *testing.T) string {
	t.Helper()
	l := listener(t)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestProcess_servesOnAllListeners(t *testing.T) {
	t.Parallel()
	ca, env := installation(t, "auth")
	db := pgtest.New(t, pgtest.Schema{Name: "auth"})
	grpcAddr, httpAddr, openAddr, adminAddr := free(t), free(t), free(t), free(t)
	env = with(env, "SERVICE_AUTH_LISTEN", grpcAddr, "SERVICE_AUTH_HTTP_LISTEN", httpAddr, "SERVICE_AUTH_LISTEN_PUBLIC", openAddr,
		"SERVICE_ADMIN_LISTEN", adminAddr, "SERVICE_STOP_TIMEOUT", "1m", "SERVICE_TYPO", "x")
	svc := newKeys(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "relayed") })
	log, stop := startProcess(t, Spec{Name: "auth", Config: &struct{}{}, TakesRequests: true, TakesAgents: true, Build: func(ctx context.Context, p *Process) ([]process.Worker, error) {
		// The Postgres server of the tests runs without fsync. OpenPool rejects such a server unless unsafe is true.
		if err := p.OpenPool(ctx, p.Closers, conf.Postgres{URL: db.URL("auth"), MaxConns: 4, StatementTimeout: patience}, true); err != nil {
			return nil, err
		}
		var err error
		if p.Sealing, err = OpenSealing(p.Settings.Audit); err != nil {
			return nil, err
		}
		own := func(context.Context) ([]authn.PublicKey, error) { return []authn.PublicKey{svc.key.Public()}, nil }
		return p.ServeBoth(ctx, svc, own, handler)
	}}, env)
	ready := func() bool {
		status, _, err := get(t.Context(), "http://"+adminAddr+"/readyz")
		return err == nil && status == http.StatusOK
	}
	require.Eventually(t, func() bool { return ready() && bytes.Contains([]byte(log.String()), []byte(`"serving"`)) }, patience, 10*time.Millisecond)
	require.Contains(t, log.String(), "SERVICE_TYPO")

	pair, err := ca.IssueService("jobs", clock.Real().Now(), pki.DefaultServiceLife)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, pair.Save(dir, "jobs"))
	require.NoError(t, pki.WriteFile(filepath.Join(dir, "ca.pem"), ca.CertPEM()))
	jobs, err := pki.OpenFiles(filepath.Join(dir, "jobs.pem"), filepath.Join(dir, "jobs-key.pem"), filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	wire, err := rpc.TCP(rpc.TCPConfig{Identity: jobs, Peers: map[string]string{"auth": grpcAddr}, Client: rpc.ClientOptions{Clock: clock.Real()}})
	require.NoError(t, err)
	conn, err := wire.Dial("auth")
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	got, err := AuthKeys(conn)(t.Context())
	require.NoError(t, err)
	require.Equal(t, svc.key.ID, got[0].ID)

	status, body, err := get(t.Context(), "http://"+openAddr)
	require.NoError(t, err)
	require.Equal(t, "200 relayed", fmt.Sprint(status, " ", body))
	require.Error(t, handshake(t, httpAddr, wire.ClientTLS("auth")), "jobs is not the gateway")
	require.NoError(t, stop())
	_, err = net.Dial("tcp", grpcAddr)
	require.Error(t, err)
}

// handshake connects over TLS and reads one byte, because the error for a rejected client certificate occurs only
// then.
func handshake(t *testing.T, addr string, cfg *tls.Config) error {
	t.Helper()
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestProcess_failedBuildClosesResources(t *testing.T) {
	t.Parallel()
	_, env := installation(t, "gateway")
	closed := false
	_, _, err := call(t, Spec{Name: "gateway", Build: func(_ context.Context, p *Process) ([]process.Worker, error) {
		p.Closers.Add("thing", func(context.Context) error { closed = true; return nil })
		return nil, errors.New("no such thing")
	}}, env)
	require.ErrorContains(t, err, "no such thing")
	require.True(t, closed)
}

func TestProcess_addressInUseAndMissingCA(t *testing.T) {
	t.Parallel()
	_, env := installation(t, "auth")
	l := listener(t)
	t.Cleanup(func() { _ = l.Close() })
	taken := l.Addr().String()
	build := func(_ context.Context, p *Process) ([]process.Worker, error) {
		return p.ServeOn(newKeys(t), nil)
	}
	_, _, err := call(t, Spec{Name: "auth", Build: build}, with(env, "SERVICE_AUTH_LISTEN", taken))
	require.ErrorContains(t, err, taken)
	_, _, err = call(t, Spec{Name: "auth", Build: func(_ context.Context, p *Process) ([]process.Worker, error) {
		_, err := p.NodeCA()
		return nil, err
	}}, with(env, "SERVICE_AUTH_CA_DIR", t.TempDir()))
	require.ErrorContains(t, err, "SERVICE_JOBS_CA_DIR")
}
