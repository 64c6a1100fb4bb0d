package conf_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

type shown struct {
	One     string            `env:"SERVICE_ONE"`
	Many    []string          `env:"SERVICE_MANY"`
	Named   map[string]string `env:"SERVICE_NAMED"`
	Pointer *string           `env:"SERVICE_POINTER, noinit"`
	Token   secret.String     `env:"SERVICE_TOKEN"`
	Tokens  conf.Postgres     `env:", prefix=SERVICE_"`
}

// A password that an operator put into a URL by mistake must not be shown by --print-config, on /statusz or in an
// error message, even if the URL is malformed.
func TestPrint_redactsPasswordsInURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"https://me:hunter2-planted@h", "postgres://me:hunter2-planted@h:5432/x", "https://me:hunter2-planted@h:port",
		"https://me:hunter2-planted%zz@h", "https://:hunter2-planted@h/", "https://me:hunter2-planted@h/?a=1",
		"https://me:hunter2-planted@[::1", "https://me:x@hunter2-planted@h:port", "https://me:hunter2-planted\x7f@h",
	} {
		var cfg shown
		vars := map[string]string{
			"SERVICE_ONE": url, "SERVICE_MANY": "a," + url, "SERVICE_NAMED": "k:" + strings.ReplaceAll(url, ",", ""), "SERVICE_POINTER": url,
			"SERVICE_TOKEN": "hunter2-planted", "SERVICE_DATABASE_URL": url,
		}
		loaded, err := conf.Load(t.Context(), conf.Map(vars), &cfg)
		require.NoError(t, err)
		require.Equal(t, url, cfg.One, "the program itself receives the full URL")
		var out bytes.Buffer
		require.NoError(t, conf.Print(&out, loaded))
		require.NotContains(t, out.String(), "hunter2-planted", url)
		require.NotContains(t, fmt.Sprintf("%+v", loaded.Changed()), "hunter2-planted", url)

		var public conf.Public
		_, err = conf.Load(t.Context(), conf.Map(map[string]string{"PUBLIC_URL": url}), &public)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hunter2-planted", url)
	}
}

func TestPrint_textWithoutPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"https://me@h", "https://h:1/a?b=c@d", "me@example.org", "a:b", "100%"} {
		loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_ONE": text}), &shown{})
		require.NoError(t, err)
		require.Equal(t, text, loaded.Settings[0].Value)
	}
}

func TestPrint_oneLinePerSetting(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a\nSERVICE_ADMIN=yes", "a\r\nb", "a b", "a#b", "a\x00b", "\u2028", `a"b`, "$(reboot)"} {
		loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_ONE": text}), &shown{})
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, conf.Print(&out, loaded))
		require.Equal(t, len(loaded.Settings), strings.Count(out.String(), "\n"), "%q", text)
		require.NotContains(t, out.String(), "\nSERVICE_ADMIN=yes")
	}
}

func TestLoaded_Changed(t *testing.T) {
	t.Parallel()
	for vars, want := range map[string][]string{
		"":                        nil,
		"MANY=a,b":                {"SERVICE_MANY"},
		"TOKEN=x":                 {"SERVICE_TOKEN"},
		"TOKEN=":                  {"SERVICE_TOKEN"},
		"DATABASE_MAX_CONNS=8":    nil,
		"DATABASE_MAX_CONNS=9":    {"SERVICE_DATABASE_MAX_CONNS"},
		"NAMED=b:2,a:1 POINTER=p": {"SERVICE_NAMED", "SERVICE_POINTER"},
	} {
		loaded, err := conf.Load(t.Context(), conf.Map(pairs(vars)), &shown{})
		require.NoError(t, err, vars)
		var changed []string
		for _, s := range loaded.Changed() {
			changed = append(changed, s.Name)
		}
		require.Equal(t, want, changed, vars)
	}
}

func TestPrint_mapOrder(t *testing.T) {
	t.Parallel()
	for range 10 {
		loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_NAMED": "c:3,a:1,b:2"}), &shown{})
		require.NoError(t, err)
		require.Equal(t, "a:1,b:2,c:3", loaded.Settings[2].Value)
	}
}

func TestLoad_warnings(t *testing.T) {
	t.Parallel()
	for name, warning := range map[string]string{
		"SERVICE_TOKEN_FILE":          "",
		"SERVICE_TOKENS":              "did you mean SERVICE_TOKEN?",
		"SERVICE_TOKEN_FLE":           "did you mean SERVICE_TOKEN_FILE?",
		"SERVICE_DATABASE_URLS":       "did you mean SERVICE_DATABASE_URL?",
		"SERVICE_DATABASE_MAX_CON":    "did you mean SERVICE_DATABASE_MAX_CONNS?",
		"SERVICE_QQQQQQQQQQQQQQQQQQQ": "nothing reads it",
		"SERVICE_JOB_ANYTHING":        "",
		"service_one":                 "",
		"OTHER_ONE":                   "",
	} {
		path := name
		loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{name: path}), &shown{})
		if strings.HasSuffix(name, "TOKEN_FILE") {
			require.ErrorContains(t, err, "SERVICE_TOKEN_FILE: open")
		} else {
			require.NoError(t, err, name)
		}
		if warning == "" {
			require.Empty(t, loaded.Warnings, name)
			continue
		}
		require.Len(t, loaded.Warnings, 1, name)
		require.Contains(t, loaded.Warnings[0], name+" is set")
		require.Contains(t, loaded.Warnings[0], warning)
		require.Equal(t, strings.Contains(warning, "mean"), strings.Contains(loaded.Warnings[0], "did you mean"), name)
	}
}
