package allinone

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// newPartialDaemon creates a daemon that has only a folder, a listener and settings.
func newPartialDaemon(t *testing.T, readyFile string) (*daemon, *bytes.Buffer) {
	t.Helper()
	f, err := openFolder(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	l, err := listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()); require.NoError(t, f.close()) })
	o, err := obs.Setup(t.Context(), obs.Config{Service: "signalboxd", LogLevel: "info", LogFormat: "json"}, io.Discard)
	require.NoError(t, err)
	out := &bytes.Buffer{}
	return &daemon{settings: &Settings{}, options: Options{ReadyFile: readyFile, Out: out}, folder: f, listener: l, obs: o, closers: &process.Closers{}}, out
}

func TestDaemon_announce_readyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run", "signalbox", "ready.json")
	d, _ := newPartialDaemon(t, path)
	d.settings.Common.Public.URL = "https://signalbox.example"
	require.NoError(t, d.announce(t.Context()))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var got ready
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, ready{Address: "http://" + d.listener.Addr().String(), PID: os.Getpid(), Version: version.Server(), Data: d.folder.path}, got)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file may be left")
	require.NoError(t, d.closers.Close(t.Context()))
	require.NoFileExists(t, path, "a stopped process must leave no ready file")
	require.NoError(t, d.forget(), "a missing ready file must not be an error")
}

func TestDaemon_announce_noReadyFile(t *testing.T) {
	t.Parallel()
	d, _ := newPartialDaemon(t, "")
	require.NoError(t, d.forget())
	require.NoError(t, d.announce(t.Context()))
}

func TestDaemon_announce_unwritableReadyFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	d, _ := newPartialDaemon(t, filepath.Join(file, "ready.json"))
	require.ErrorContains(t, d.announce(t.Context()), "ready file")
}

func TestDaemon_showFirst(t *testing.T) {
	t.Parallel()
	drawn := secret.New("drawn-at-random")
	for name, tc := range map[string]struct {
		first *auth.FirstLogin
		want  bool
	}{
		"later start": {nil, false}, "generated password": {&auth.FirstLogin{Username: "admin", Password: drawn}, true},
		"configured password": {&auth.FirstLogin{Username: "admin", Password: drawn, Given: true}, false},
	} {
		d, out := newPartialDaemon(t, "")
		d.first = tc.first
		d.showFirst()
		require.NoError(t, d.announce(t.Context()))
		require.Equal(t, tc.want, strings.Contains(out.String(), "First login (shown once): admin / drawn-at-random"), name)
		require.Equal(t, tc.want, out.Len() > 0, name)
	}
}

func TestDialable(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{"0.0.0.0:80": "127.0.0.1:80", "[::]:80": "127.0.0.1:80", "127.0.0.2:80": "127.0.0.2:80", "[::1]:80": "[::1]:80"} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		require.NoError(t, err)
		require.Equal(t, want, dialable(tcp))
	}
	require.Equal(t, "/run/x", dialable(&net.UnixAddr{Name: "/run/x", Net: "unix"}))
	d, _ := newPartialDaemon(t, "")
	d.settings.Common.Public.URL = "https://signalbox.example"
	require.Equal(t, "https://signalbox.example", d.url(), "the public URL must take precedence over the bound address")
}

func TestListen_addressInUse(t *testing.T) {
	t.Parallel()
	l, err := listen("127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	_, err = listen(addr)
	require.ErrorContains(t, err, "the address "+addr+" is in use by another process; choose another with --listen")
	require.NoError(t, ignoreClosed(l.Close()))
	require.NoError(t, ignoreClosed(l.Close()), "a listener that is closed already must not be an error")
	_, err = listen("256.0.0.1:1")
	require.ErrorContains(t, err, "listen on 256.0.0.1:1")
}

// runInvalid calls Run with settings with which Run returns without serving.
func runInvalid(t *testing.T, flags map[string]string, o Options) (out, log *bytes.Buffer, err error) {
	t.Helper()
	out, log = &bytes.Buffer{}, &bytes.Buffer{}
	o.Flags, o.Out, o.Log = flags, out, log
	return out, log, Run(t.Context(), o)
}

func TestRun_addressOrFolderInUse(t *testing.T) {
	t.Parallel()
	l, err := listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	data := filepath.Join(t.TempDir(), "data")
	flags := map[string]string{"SERVICE_DATA": data, "SERVICE_LISTEN": l.Addr().String()}
	_, _, err = runInvalid(t, flags, Options{})
	require.ErrorContains(t, err, "is in use by another process")
	require.NoDirExists(t, filepath.Join(data, "postgres"))
	f, err := openFolder(data)
	require.NoError(t, err, "the folder must have been released")
	readyFile := filepath.Join(t.TempDir(), "ready.json")
	require.NoError(t, os.WriteFile(readyFile, []byte("of the running process"), 0o600))
	_, _, err = runInvalid(t, flags, Options{ReadyFile: readyFile})
	require.ErrorContains(t, err, data+" is in use by another signalboxd")
	require.FileExists(t, readyFile)
	require.NoError(t, f.close())
}

func TestRun_dataSeenByWorks(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	audit := filepath.Join(t.TempDir(), "audit")
	for name, c := range map[string]struct{ flags, want string }{
		"data below the system": {"/usr/local/signalbox-test/data", "jobs and engines can read /usr, which contains the data folder /usr/local/signalbox-test/data"},
		"path to keys":          {data + " " + filepath.Join(data, "keys"), "change SERVICE_AGENT_WORK_PATHS"},
		"path to the audit":     {data + " " + audit, audit + ", where keys are stored"},
	} {
		folder, path, _ := strings.Cut(c.flags, " ")
		flags := map[string]string{"SERVICE_DATA": folder, "SERVICE_LISTEN": "127.0.0.1:0", "SERVICE_AUDIT_DIR": audit, "SERVICE_AGENT_WORK_PATHS": path}
		_, _, err := runInvalid(t, flags, Options{})
		require.ErrorContains(t, err, c.want, name)
		require.NoDirExists(t, folder, "no keys may be created")
	}
}

func TestRun_reportsAllInvalidSettings(t *testing.T) {
	t.Parallel()
	_, _, err := runInvalid(t, map[string]string{
		"SERVICE_LISTEN": "nowhere", "SERVICE_JWT_HOURS": "0", "SERVICE_LOG_LEVEL": "loud", "SERVICE_BLOB_DRIVER": "tape",
	}, Options{})
	for _, name := range []string{"SERVICE_LISTEN", "SERVICE_JWT_HOURS", "SERVICE_LOG_LEVEL", "SERVICE_BLOB_DRIVER"} {
		require.ErrorContains(t, err, name)
	}
}

func TestRun_printConfig(t *testing.T) {
	t.Parallel()
	out, _, err := runInvalid(t, map[string]string{
		"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": "hunter2-hunter2", "SERVICE_DATABASE_ADMIN_URL": "postgres://root:hunter3@db/x", "SERVICE_DATA": "/srv/signalbox",
	}, Options{PrintConfig: true})
	require.NoError(t, err)
	for _, text := range []string{
		"/srv/signalbox", "SERVICE_LISTEN", defaultListen, "SERVICE_JWT_HOURS", "SERVICE_DATABASE_ADMIN_URL", "SERVICE_BLOB_DRIVER", "SERVICE_AUTH_LEASE",
	} {
		require.Contains(t, out.String(), text)
	}
	require.NotContains(t, out.String(), "hunter")
	require.NoDirExists(t, "/srv/signalbox")
}

func TestOwnAgent_removesSettingsOfSeparateAgents(t *testing.T) {
	t.Parallel()
	out, _, err := runInvalid(t, map[string]string{"SERVICE_AGENT_DATA": "/elsewhere", "SERVICE_AGENT_STOP_WORKS": "false"}, Options{PrintConfig: true})
	require.NoError(t, err)
	require.NotContains(t, out.String(), "SERVICE_AGENT_DATA")
	require.NotContains(t, out.String(), "SERVICE_AGENT_JOIN_TOKEN")
	require.NotContains(t, out.String(), "SERVICE_AGENT_SERVER")
	require.NotContains(t, out.String(), "SERVICE_AGENT_RUNS_ON")
	require.Contains(t, out.String(), "SERVICE_AGENT_CACHE_BYTES", "settings that the embedded agent reads must be listed")
	loaded := &conf.Loaded{Settings: []conf.Setting{
		{Name: "SERVICE_AGENT_DATA", Source: conf.SourceEnv}, {Name: "SERVICE_AGENT_SERVER", Source: conf.SourceDefault}, {Name: "SERVICE_DATA", Source: conf.SourceEnv},
	}}
	ownAgent(loaded)
	require.Equal(t, []conf.Setting{{Name: "SERVICE_DATA", Source: conf.SourceEnv}}, loaded.Settings)
	require.Len(t, loaded.Warnings, 1)
	require.Contains(t, loaded.Warnings[0], "SERVICE_AGENT_DATA")
}

func TestSchemas_everyService(t *testing.T) {
	t.Parallel()
	all, err := schemas()
	require.NoError(t, err)
	require.Len(t, all, 5)
	for _, name := range []string{auth.Name, jobs.Name, ingest.Name, registry.Name, inference.Name} {
		require.NotNil(t, all[name], name)
	}
}

func TestRun_postgresNotFound(t *testing.T) {
	t.Parallel()
	_, _, err := runInvalid(t, map[string]string{
		"SERVICE_DATA": filepath.Join(t.TempDir(), "data"), "SERVICE_LISTEN": "127.0.0.1:0", "SERVICE_POSTGRES_BIN": t.TempDir(),
	}, Options{})
	require.ErrorContains(t, err, "SERVICE_POSTGRES_BIN")
}

func TestDaemon_openObjects(t *testing.T) {
	t.Parallel()
	d, _ := newPartialDaemon(t, "")
	var err error
	d.keys, err = d.folder.keys(fixtures.Now())
	require.NoError(t, err)
	d.settings.Common.Blob = conf.Blob{Driver: conf.BlobFS, MaxMB: 1}
	require.NoError(t, d.openObjects())
	require.DirExists(t, d.folder.in("objects"))
	require.NotNil(t, d.objects.Handler)
	require.NoError(t, d.closers.Close(t.Context()))
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	d.settings.Common.Blob.Root = elsewhere
	require.NoError(t, d.openObjects())
	require.DirExists(t, elsewhere)
	require.NoError(t, d.closers.Close(t.Context()))
}
