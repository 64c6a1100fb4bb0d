package boot

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want map[string]string
		err  string
	}{
		"none":           {"", map[string]string{}, ""},
		"two":            {"auth=127.0.0.1:7101,jobs=host:7102", map[string]string{"auth": "127.0.0.1:7101", "jobs": "host:7102"}, ""},
		"spaces, commas": {" auth=a:1 ,, jobs=b:2,", map[string]string{"auth": "a:1", "jobs": "b:2"}, ""},
		"IPv6":           {"auth=[::1]:7101", map[string]string{"auth": "[::1]:7101"}, ""},
		"no address":     {"auth", nil, `got "auth"`},
		"empty address":  {"auth=", nil, `got "auth="`},
		"no name":        {"=a:1", nil, `got "=a:1"`},
		"no port":        {"auth=host", nil, `got "auth=host"`},
		"URL":            {"auth=http://a:1", nil, "SERVICE_PEERS"},
		"duplicate name": {"auth=a:1,auth=b:2", nil, "service auth appears twice"},
	} {
		s := &Settings{Peers: tc.text}
		got, err := s.addresses()
		if tc.err != "" {
			require.ErrorContains(t, err, "SERVICE_PEERS", name)
			require.ErrorContains(t, err, tc.err, name)
			require.Error(t, s.Validate(), name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got, name)
	}
}

// load reads a process's settings from the given variables.
func load(t *testing.T, env map[string]string, own any) (*Process, *conf.Loaded, error) {
	t.Helper()
	p := &Process{}
	loaded, err := p.load(t.Context(), Spec{Name: "auth", Config: own}, conf.Map(env))
	return p, loaded, err
}

func TestProcess_load_reportsAllFaults(t *testing.T) {
	t.Parallel()
	own := &struct {
		Hours int `env:"SERVICE_JWT_HOURS, default=8"`
	}{}
	_, _, err := load(t, map[string]string{
		"SERVICE_PEERS": "auth", "SERVICE_LOG_LEVEL": "loud", "SERVICE_AUTH_LISTEN": "nowhere", "SERVICE_AUTH_DATABASE_MAX_CONNS": "1",
		"SERVICE_TLS_CA": "ca.pem", "SERVICE_JWT_HOURS": "many",
	}, own)
	for _, name := range []string{
		"SERVICE_LOG_LEVEL", "SERVICE_AUTH_LISTEN", "SERVICE_AUTH_DATABASE_MAX_CONNS", "SERVICE_TLS_CERT", "SERVICE_TLS_KEY", "SERVICE_JWT_HOURS",
	} {
		require.ErrorContains(t, err, name)
	}
	_, _, err = load(t, map[string]string{"SERVICE_PEERS": "auth"}, own)
	require.ErrorContains(t, err, "SERVICE_PEERS")
}

func TestProcess_load_sharedAndOwnSettings(t *testing.T) {
	t.Parallel()
	p, loaded, err := load(t, map[string]string{
		"SERVICE_AUTH_LISTEN": "127.0.0.1:1", "SERVICE_JOBS_LISTEN": "127.0.0.1:2", "SERVICE_PUBLIC_URL": "https://x.example",
		"SERVICE_KEYRING": "k1 AAAA", "SERVICE_JOB_TOKEN": "ing_x", "SERVICE_PERS": "auth=a:1",
	}, &struct{}{})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", p.Own.Listen.Addr, "the service's own address, not that of another service")
	require.Equal(t, "https://x.example", p.Settings.Public.URL)
	require.EqualValues(t, 8, p.Own.Postgres.MaxConns)
	require.Contains(t, joined(loaded.Warnings), "SERVICE_PERS", "an unknown name causes a warning")
	require.NotContains(t, joined(loaded.Warnings), "SERVICE_JOB_TOKEN", "the name of a variable for training code causes no warning")
}

func TestProcess_load_onlySettingsThatTheProcessUses(t *testing.T) {
	t.Parallel()
	environ := conf.Map(map[string]string{"SERVICE_GATEWAY_DATABASE_URL": "postgres://x", "SERVICE_AUTH_AGENT_LISTEN": "127.0.0.1:1", "SERVICE_AUTH_HTTP_LISTEN": "127.0.0.1:1"})
	for name, spec := range map[string]Spec{
		"SERVICE_GATEWAY_DATABASE_URL": {Name: "gateway", CallsOnly: true},
		"SERVICE_AUTH_AGENT_LISTEN":    {Name: "auth", TakesRequests: true},
		"SERVICE_AUTH_HTTP_LISTEN":     {Name: "auth", TakesAgents: true},
	} {
		p := &Process{}
		spec.Config = &struct{}{}
		loaded, err := p.load(t.Context(), spec, environ)
		require.NoError(t, err)
		require.Contains(t, joined(loaded.Warnings), name, "a setting without effect causes a warning")
	}
}

func joined(list []string) (all string) {
	for _, s := range list {
		all += s + "\n"
	}
	return all
}
