package conf_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// pair validates that Low is not above High.
type pair struct {
	Low  int `env:"LOW, default=1"`
	High int `env:"HIGH, default=5"`
}

func (p pair) Validate() error {
	if p.Low > p.High {
		return errors.Join(conf.Errorf("LOW", "is above HIGH"), errors.New("invalid pair"))
	}
	return nil
}

type outer struct {
	Pair      pair          `env:", prefix=SERVICE_PAIR_"`
	Name      string        `env:"SERVICE_NAME, required"`
	Token     secret.String `env:"SERVICE_TOKEN, required"`
	Every     time.Duration `env:"SERVICE_EVERY, default=1m"`
	validated *int
}

func (o outer) Validate() error {
	*o.validated++
	if o.Pair.High == 9 {
		return conf.Errorf("SERVICE_PAIR_HIGH", "is nine")
	}
	return nil
}

func fill(t *testing.T, vars map[string]string) (outer, *conf.Loaded, error) {
	t.Helper()
	validated := 0
	cfg := outer{validated: &validated}
	loaded, err := conf.Load(t.Context(), conf.Map(vars), &cfg)
	return cfg, loaded, err
}

func TestLoad_required(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		vars map[string]string
		want []string
	}{
		"not set": {map[string]string{}, []string{"SERVICE_NAME: must be set", "SERVICE_TOKEN: must be set"}},
		"empty": {
			map[string]string{"SERVICE_NAME": "", "SERVICE_TOKEN": ""},
			[]string{"SERVICE_NAME: must be set", "SERVICE_TOKEN: must be set"},
		},
		"one of them": {map[string]string{"SERVICE_NAME": "n"}, []string{"SERVICE_TOKEN: must be set"}},
		"both":        {map[string]string{"SERVICE_NAME": "n", "SERVICE_TOKEN": "t"}, nil},
	} {
		_, _, err := fill(t, c.vars)
		if c.want == nil {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, c.want, strings.Split(err.Error(), "\n"), name)
	}
}

func TestLoad_emptyNumberKeepsDefault(t *testing.T) {
	t.Parallel()
	cfg, loaded, err := fill(t, map[string]string{
		"SERVICE_NAME": "n", "SERVICE_TOKEN": "t", "SERVICE_EVERY": "", "SERVICE_PAIR_LOW": "",
	})
	require.NoError(t, err)
	require.Equal(t, time.Minute, cfg.Every)
	require.Equal(t, 1, cfg.Pair.Low)
	for _, s := range loaded.Settings {
		require.Equal(t, s.Name == "SERVICE_NAME" || s.Name == "SERVICE_TOKEN", s.Source == conf.SourceEnv, s.Name)
	}
	require.Empty(t, loaded.Warnings, "an empty setting is still known")
}

func TestLoad_validatesOnlyIfSettingsParse(t *testing.T) {
	t.Parallel()
	good := map[string]string{"SERVICE_NAME": "n", "SERVICE_TOKEN": "t"}
	for name, c := range map[string]struct {
		name, value string
		validated   int
		want        string
	}{
		"valid":                          {"SERVICE_EVERY", "2m", 1, ""},
		"not a number":                   {"SERVICE_PAIR_LOW", "x", 0, "SERVICE_PAIR_LOW: must be a whole number"},
		"inner struct invalid":           {"SERVICE_PAIR_LOW", "6", 0, "SERVICE_PAIR_LOW: is above HIGH\ninvalid pair"},
		"outer struct rejects the inner": {"SERVICE_PAIR_HIGH", "9", 1, "SERVICE_PAIR_HIGH: is nine"},
	} {
		vars := map[string]string{c.name: c.value}
		maps.Copy(vars, good)
		cfg, loaded, err := fill(t, vars)
		require.Equal(t, c.validated, *cfg.validated, name)
		require.NotNil(t, loaded, "Loaded is also returned with an error")
		require.Len(t, loaded.Settings, 5, name)
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestLookuper_With(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"SERVICE_NAME": "env", "SERVICE_TOKEN": "t"}
	base := conf.Map(vars)
	flags := map[string]string{"SERVICE_NAME": "flag"}
	over := base.With("flag", flags)
	vars["SERVICE_NAME"], flags["SERVICE_NAME"] = "changed later", "changed later"
	for want, from := range map[string]conf.Lookuper{"env": base, "flag": over, "last": over.With("x", map[string]string{"SERVICE_NAME": "last"})} {
		got, ok := from.Lookup("SERVICE_NAME")
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	_, ok := base.Lookup("SERVICE_ABSENT")
	require.False(t, ok)
}

func TestLoad_secretAndFileInDifferentLayers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("from the file\n"), 0o600))
	validated := 0
	cfg := outer{validated: &validated}
	from := conf.Map(map[string]string{"SERVICE_NAME": "n", "SERVICE_TOKEN": "hunter2-planted"}).
		With("flag", map[string]string{"SERVICE_TOKEN_FILE": path})
	_, err := conf.Load(t.Context(), from, &cfg)
	require.ErrorContains(t, err, "set by both SERVICE_TOKEN and SERVICE_TOKEN_FILE")
	require.NotContains(t, err.Error(), "hunter2-planted")
}

func TestLoad_secretFileSizeLimit(t *testing.T) {
	t.Parallel()
	for size, ok := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		path := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600))
		cfg, _, err := fill(t, map[string]string{"SERVICE_NAME": "n", "SERVICE_TOKEN_FILE": path})
		require.Equal(t, ok, err == nil, size)
		require.True(t, !ok || len(cfg.Token.Reveal()) == size)
	}
	_, _, err := fill(t, map[string]string{"SERVICE_NAME": "n", "SERVICE_TOKEN_FILE": t.TempDir()})
	require.ErrorContains(t, err, "SERVICE_TOKEN_FILE: ", "a folder is not a file")
}

func TestLoad_valuesAreNotExpanded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a$HOME", "${SERVICE_TOKEN}", " kept ", "a=b=c", "ключ", "a\tb", `"quoted"`, "%2e"} {
		cfg, _, err := fill(t, map[string]string{"SERVICE_NAME": text, "SERVICE_TOKEN": text})
		require.NoError(t, err)
		require.Equal(t, text, cfg.Name)
		require.Equal(t, text, cfg.Token.Reveal())
	}
}
