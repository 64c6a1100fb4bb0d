package conf_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// pairs parses "A=1 B=2" into settings with the prefix SERVICE_.
func pairs(text string) map[string]string {
	vars := map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		vars["SERVICE_"+key] = value
	}
	return vars
}

func TestSharedConfigs_bounds(t *testing.T) {
	t.Parallel()
	for vars, fault := range map[string]string{
		"DATABASE_MAX_CONNS=2":              "",
		"DATABASE_MAX_CONNS=1":              "must be at least 2, got 1",
		"DATABASE_MAX_CONNS=2147483648":     "is out of range",
		"DATABASE_STATEMENT_TIMEOUT=1ns":    "",
		"DATABASE_STATEMENT_TIMEOUT=0s":     "must be positive, got 0s",
		"DRAIN_DELAY=0s":                    "",
		"DRAIN_DELAY=-1ns":                  "must not be negative, got -1ns",
		"STOP_TIMEOUT=1ns":                  "",
		"STOP_GRACE=0s":                     "",
		"STOP_TIMEOUT=-1s":                  "must be positive, got -1s",
		"READY_TIMEOUT=1ns":                 "",
		"READY_TIMEOUT=0s":                  "must be positive, got 0s",
		"MAX_UPLOAD_MB=1":                   "",
		"MAX_UPLOAD_MB=0":                   "must be from 1 to 1073741824, got 0",
		"MAX_UPLOAD_MB=-1":                  "must be from 1 to 1073741824, got -1",
		"MAX_UPLOAD_MB=1073741824":          "",
		"MAX_UPLOAD_MB=1073741825":          "must be from 1 to 1073741824, got 1073741825",
		"MAX_UPLOAD_MB=1e3":                 "must be a whole number",
		"LOG_LEVEL=debug LOG_FORMAT=text":   "",
		"LOG_LEVEL=WARN":                    "",
		"LOG_LEVEL=error LOG_FORMAT=json":   "",
		"LOG_FORMAT=JSON":                   "must be json or text",
		"BLOB_SIGNING_KEY=" + letters(31):   "must have at least 32 characters, got 31",
		"BLOB_SIGNING_KEY=" + letters(32):   "",
		"BLOB_SIGNING_KEY=":                 "",
		"BLOB_DRIVER=FS":                    `must be fs or s3, got "FS"`,
		"BLOB_S3_PATH_STYLE=maybe":          "must be true or false",
		"OTLP_ENDPOINT=http://h:4317":       "",
		"OTLP_ENDPOINT=grpc://h:4317":       "must be a URL like",
		"OTLP_ENDPOINT=http://h/":           "must not end in a slash",
		"PUBLIC_URL=https://h/base":         "",
		"PUBLIC_URL=https://[2001:db8::1]":  "",
		"PUBLIC_URL=https://":               "must be a URL like",
		"PUBLIC_URL=//h":                    "must be a URL like",
		"PUBLIC_URL=HTTPS://h":              "must have its scheme in lower case",
		"PUBLIC_URL=https://h#top":          "must be a URL like",
		"PUBLIC_URL=javascript:alert(1)":    "must be a URL like",
		"PUBLIC_URL=https://h:notaport":     "must be a URL like",
		"DATABASE_MAX_CONNS= DRAIN_DELAY=":  "",
		"STOP_TIMEOUT= MAX_UPLOAD_MB=":      "",
		"BLOB_S3_PLAINTEXT= READY_TIMEOUT=": "",
	} {
		var cfg shared
		_, err := conf.Load(t.Context(), conf.Map(pairs(vars)), &cfg)
		if fault == "" {
			require.NoError(t, err, vars)
			continue
		}
		require.ErrorContains(t, err, fault, vars)
	}
}

// letters returns n characters that look random.
func letters(n int) string { return strings.Repeat("k3Jq9ZtW7xLm2RvB", 1+n/16)[:n] }

func TestSharedConfigs_listenAddresses(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{
		"": true, ":0": true, "127.0.0.1:8080": true, "[::1]:65535": true, "host.example:1": true,
		"127.0.0.1": false, "::1:80": false, "host:": false, "host:http": false, "host:65536": false, "host:-1": false,
		"host:80:90": false, "http://host:80": false, "[::1]": false,
	} {
		for name, check := range map[string]func() error{
			"LISTEN":       conf.Listen{Addr: addr}.Validate,
			"ADMIN_LISTEN": conf.Obs{LogLevel: "info", LogFormat: "json", AdminListen: addr}.Validate,
		} {
			err := check()
			require.Equal(t, ok, err == nil, "%s %q: %v", name, addr, err)
			require.True(t, ok || strings.HasPrefix(err.Error(), name+": must be host:port"), "%v", err)
		}
	}
}

func TestTLS_Validate(t *testing.T) {
	t.Parallel()
	for set := range 8 {
		cfg, missing := conf.TLS{}, []string{}
		for bit, file := range []struct {
			name string
			at   *string
		}{{"TLS_CA", &cfg.CA}, {"TLS_CERT", &cfg.Cert}, {"TLS_KEY", &cfg.Key}} {
			if set&(1<<bit) != 0 {
				*file.at = "/file"
			} else {
				missing = append(missing, file.name)
			}
		}
		err := cfg.Validate()
		if set == 0 || set == 7 {
			require.NoError(t, err)
			require.Equal(t, set == 7, cfg.Enabled())
			continue
		}
		for _, name := range missing {
			require.ErrorContains(t, err, name+": must be set")
		}
		require.Len(t, strings.Split(err.Error(), "\n"), len(missing))
	}
}

func TestBlob_Validate_reportsAllMissingS3Settings(t *testing.T) {
	t.Parallel()
	for given, missing := range map[string]int{
		"": 4, "ENDPOINT": 3, "ENDPOINT BUCKET": 2, "ENDPOINT BUCKET ACCESS_KEY": 1, "ENDPOINT BUCKET ACCESS_KEY SECRET_KEY": 0,
	} {
		vars := pairs("BLOB_DRIVER=s3")
		for name := range strings.FieldsSeq(given) {
			vars["SERVICE_BLOB_S3_"+name] = "x"
		}
		var cfg shared
		_, err := conf.Load(t.Context(), conf.Map(vars), &cfg)
		if missing == 0 {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, missing, strings.Count(err.Error(), "must be set for the driver s3"), "%v", err)
	}
}
