package conf_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

type config struct {
	Listen   conf.Listen   `env:", prefix=SERVICE_JOBS_"`
	Nested   nested        `env:", prefix=SERVICE_"`
	Keep     time.Duration `env:"SERVICE_JOBS_KEEP, default=720h" doc:"how long finished jobs are kept"`
	Pools    []string      `env:"SERVICE_JOBS_POOLS, default=cpu,gpu"`
	Weights  map[string]int
	Token    secret.String `env:"SERVICE_JOBS_TOKEN" doc:"a token"`
	Needed   int           `env:"SERVICE_JOBS_NEEDED, required"`
	Mirror   string        `env:"SERVICE_JOBS_MIRROR"`
	internal int
}

type nested struct {
	Deep   deep    `env:", prefix=DEEP_"`
	Factor float64 `env:"FACTOR, default=0.5"`
}

type deep struct {
	On bool `env:"ON, default=false"`
}

func (d deep) Validate() error {
	if d.On {
		return conf.Errorf("ON", "is not allowed on %s", "Sundays")
	}
	return nil
}

func load(t *testing.T, vars map[string]string) (config, *conf.Loaded, error) {
	t.Helper()
	cfg := config{Listen: conf.Listen{Addr: "127.0.0.1:7401"}}
	if _, ok := vars["SERVICE_JOBS_NEEDED"]; !ok {
		vars["SERVICE_JOBS_NEEDED"] = "1"
	}
	loaded, err := conf.Load(t.Context(), conf.Map(vars), &cfg)
	return cfg, loaded, err
}

func TestLoad_defaultsAndValues(t *testing.T) {
	t.Parallel()
	cfg, _, err := load(t, map[string]string{})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7401", cfg.Listen.Addr, "the field's initial value is its default")
	require.Equal(t, 720*time.Hour, cfg.Keep)
	require.Equal(t, []string{"cpu", "gpu"}, cfg.Pools)
	require.InDelta(t, 0.5, cfg.Nested.Factor, 0)
	require.True(t, cfg.Token.IsZero())
	require.Zero(t, cfg.internal)

	cfg, _, err = load(t, map[string]string{
		"SERVICE_JOBS_LISTEN": "[::1]:0", "SERVICE_JOBS_KEEP": "1h30m", "SERVICE_JOBS_POOLS": "a", "SERVICE_FACTOR": "2",
		"SERVICE_JOBS_TOKEN": "t0ken", "SERVICE_JOBS_NEEDED": "7",
	})
	require.NoError(t, err)
	require.Equal(t, "[::1]:0", cfg.Listen.Addr)
	require.Equal(t, 90*time.Minute, cfg.Keep)
	require.Equal(t, []string{"a"}, cfg.Pools)
	require.InDelta(t, 2, cfg.Nested.Factor, 0)
	require.Equal(t, "t0ken", cfg.Token.Reveal())
	require.Equal(t, 7, cfg.Needed)
}

func TestLoad_joinsAllErrors(t *testing.T) {
	t.Parallel()
	cfg := config{}
	_, err := conf.Load(t.Context(), conf.Map(map[string]string{
		"SERVICE_JOBS_KEEP": "a month", "SERVICE_FACTOR": "half", "SERVICE_JOBS_LISTEN": "7401", "SERVICE_DEEP_ON": "true",
		"SERVICE_JOBS_TOKEN": secret.Redacted,
	}), &cfg)
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 6)
	for i, want := range []string{
		`SERVICE_JOBS_LISTEN: must be host:port, got "7401"`,
		`SERVICE_DEEP_ON: is not allowed on Sundays`,
		`SERVICE_FACTOR: must be a number, such as 7 or 0.5, got "half"`,
		`SERVICE_JOBS_KEEP: must be a duration, such as 30s, 15m or 12h, got "a month"`,
		`SERVICE_JOBS_TOKEN: the secret is [redacted]; it was copied from a printed configuration`,
		`SERVICE_JOBS_NEEDED: must be set`,
	} {
		require.Equal(t, want, lines[i])
	}
	var fault *conf.SettingError
	require.ErrorAs(t, err, &fault)
}

func TestLoad_secretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for name, c := range map[string]struct{ text, want string }{
		"plain": {"s3cret", "s3cret"}, "one line end": {"s3cret\n", "s3cret"}, "windows": {"s3cret\r\n", "s3cret"},
		"kept spaces": {" a b \n\n", " a b \n"}, "dollar": {"a${HOME}", "a${HOME}"},
	} {
		cfg, loaded, err := load(t, map[string]string{"SERVICE_JOBS_TOKEN_FILE": write(name, c.text)})
		require.NoError(t, err, name)
		require.Equal(t, c.want, cfg.Token.Reveal(), name)
		require.Empty(t, loaded.Warnings, name)
	}
	for name, c := range map[string]struct {
		vars map[string]string
		want string
	}{
		"absent": {map[string]string{"SERVICE_JOBS_TOKEN_FILE": filepath.Join(dir, "none")}, "SERVICE_JOBS_TOKEN_FILE: open "},
		"empty":  {map[string]string{"SERVICE_JOBS_TOKEN_FILE": write("empty", "\n")}, "is empty"},
		"large":  {map[string]string{"SERVICE_JOBS_TOKEN_FILE": write("large", strings.Repeat("x", 65537))}, "larger than 65536"},
		"both": {
			map[string]string{"SERVICE_JOBS_TOKEN": "a", "SERVICE_JOBS_TOKEN_FILE": write("b", "b")},
			"is set by both SERVICE_JOBS_TOKEN and SERVICE_JOBS_TOKEN_FILE; unset one of them",
		},
	} {
		_, _, err := load(t, c.vars)
		require.ErrorContains(t, err, c.want, name)
	}
	_, loaded, err := load(t, map[string]string{"SERVICE_JOBS_MIRROR_FILE": write("m", "x")})
	require.NoError(t, err)
	require.Len(t, loaded.Warnings, 1, "only secrets are read from files")
}

func TestLoad_unknownSettings(t *testing.T) {
	t.Parallel()
	_, loaded, err := load(t, map[string]string{
		"SERVICE_JOBS_KEPT": "1h", "SERVICE_JOBS_TOKEN_FIEL": "x", "SERVICE_COMPLETELY_DIFFERENT_THING": "1",
		"SERVICE_JOB_TOKEN": "training code's", "SERVICEX": "1", "PATH": "/bin", "SERVICE_AUTH_ISSUER": "x",
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		"SERVICE_AUTH_ISSUER is set, but nothing reads it",
		"SERVICE_COMPLETELY_DIFFERENT_THING is set, but nothing reads it",
		"SERVICE_JOBS_KEPT is set, but nothing reads it; did you mean SERVICE_JOBS_KEEP?",
		"SERVICE_JOBS_TOKEN_FIEL is set, but nothing reads it; did you mean SERVICE_JOBS_TOKEN_FILE?",
	}, loaded.Warnings)

	cfg := nested{}
	loaded, err = conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_AUTH_ISSUER": "x"}), &cfg, conf.Ignore("SERVICE_AUTH_"))
	require.NoError(t, err)
	require.Empty(t, loaded.Warnings)
}

func TestPrint_redactsAndShowsSource(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("hunter2-planted"), 0o600))
	cfg := config{}
	from := conf.Map(map[string]string{
		"SERVICE_JOBS_TOKEN_FILE": file, "SERVICE_FACTOR": "2", "SERVICE_JOBS_MIRROR": "http://me:hunter2-planted@h/x y",
	}).With("flag", map[string]string{"SERVICE_JOBS_NEEDED": "3"})
	loaded, err := conf.Load(t.Context(), from, &cfg)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, conf.Print(&out, loaded))
	require.Equal(t, `SERVICE_JOBS_LISTEN=                         # default
SERVICE_DEEP_ON=false                        # default
SERVICE_FACTOR=2                             # env
SERVICE_JOBS_KEEP=720h                       # default
SERVICE_JOBS_POOLS=cpu,gpu                   # default
SERVICE_JOBS_TOKEN=[redacted]                # file
SERVICE_JOBS_NEEDED=3                        # flag
SERVICE_JOBS_MIRROR=http://me:xxxxx@h/x%20y  # env
`, out.String())
	var changed []string
	for _, s := range loaded.Changed() {
		changed = append(changed, s.Name)
	}
	require.Equal(t, []string{"SERVICE_FACTOR", "SERVICE_JOBS_TOKEN", "SERVICE_JOBS_NEEDED", "SERVICE_JOBS_MIRROR"}, changed)
	require.NotContains(t, fmt.Sprintf("%+v %+v", cfg.Token, loaded.Settings), "hunter2-planted")
	require.Error(t, conf.Print(failing{}, loaded))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestDescribe(t *testing.T) {
	t.Parallel()
	settings, err := conf.Describe(config{})
	require.NoError(t, err)
	require.Len(t, settings, 8)
	require.Equal(t, conf.Setting{
		Name: "SERVICE_JOBS_KEEP", Value: "720h", Default: "720h", Source: "default", Type: "duration",
		Doc: "how long finished jobs are kept",
	}, settings[3])
	var types []string
	for _, s := range settings {
		types = append(types, s.Type)
	}
	require.Equal(t, []string{"string", "bool", "number", "duration", "list of string", "secret", "integer", "string"}, types)
}

func TestLoad_invalidConfigStruct(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]any{
		"not a pointer to a struct": config{},
		"must not have a default": &struct {
			S secret.String `env:"SERVICE_S, default=changeme"`
		}{},
		"has a name and a prefix": &struct {
			L conf.Listen `env:"SERVICE_L, prefix=SERVICE_"`
		}{},
		"declared twice": &struct {
			A int `env:"SERVICE_A, default=1"`
			B int `env:"SERVICE_A, default=2"`
		}{},
		"SERVICE_D: invalid default: ": &struct {
			D time.Duration `env:"SERVICE_D, default=soon"`
		}{},
		"unknown option": &struct {
			D int `env:"SERVICE_D, always"`
		}{},
	} {
		_, err := conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_D": "1"}), cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestLoad_sharedSettingListedOnce(t *testing.T) {
	t.Parallel()
	var cfg struct {
		A conf.Public `env:", prefix=SERVICE_"`
		B conf.Public `env:", prefix=SERVICE_"`
	}
	loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_PUBLIC_URL": "https://h"}), &cfg)
	require.NoError(t, err)
	require.Len(t, loaded.Settings, 1)
	require.Equal(t, cfg.A, cfg.B)
}

func TestOS(t *testing.T) {
	t.Setenv("SERVICE_JOBS_NEEDED", "41")
	cfg := config{}
	_, err := conf.Load(t.Context(), conf.OS(), &cfg)
	require.NoError(t, err)
	require.Equal(t, 41, cfg.Needed)
	value, ok := conf.OS().Lookup("SERVICE_JOBS_NEEDED")
	require.True(t, ok)
	require.Equal(t, "41", value)
}

func TestLoadAll(t *testing.T) {
	t.Parallel()
	var first nested
	var second conf.Public
	from := conf.Map(map[string]string{"SERVICE_FACTOR": "2", "SERVICE_PUBLIC_URL": "https://h", "SERVICE_DEEP_OM": "1"})
	loaded, err := conf.LoadAll(t.Context(), from, []conf.Part{{Prefix: "SERVICE_", Config: &first}, {Prefix: "SERVICE_", Config: &second}})
	require.NoError(t, err)
	require.InDelta(t, 2, first.Factor, 0)
	require.Equal(t, "https://h", second.URL)
	require.Equal(t, []string{"SERVICE_DEEP_OM is set, but nothing reads it; did you mean SERVICE_DEEP_ON?"}, loaded.Warnings)
	var again nested
	both := []conf.Part{{Prefix: "SERVICE_", Config: &first}, {Prefix: "SERVICE_", Config: &again}}
	_, err = conf.LoadAll(t.Context(), conf.Map(map[string]string{"SERVICE_FACTOR": "7d"}), both)
	require.EqualError(t, err, `SERVICE_FACTOR: must be a number, such as 7 or 0.5, got "7d"`, "a setting of two services is named once")
	_, err = conf.LoadAll(t.Context(), from, []conf.Part{{Config: &first}, {Config: second}})
	require.ErrorContains(t, err, "not a pointer to a struct")
}
