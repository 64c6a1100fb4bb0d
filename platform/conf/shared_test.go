package conf_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

type shared struct {
	Listen   conf.Listen   `env:", prefix=SERVICE_"`
	Postgres conf.Postgres `env:", prefix=SERVICE_"`
	TLS      conf.TLS      `env:", prefix=SERVICE_"`
	Obs      conf.Obs      `env:", prefix=SERVICE_"`
	Stop     conf.Stop     `env:", prefix=SERVICE_"`
	Blob     conf.Blob     `env:", prefix=SERVICE_"`
	Public   conf.Public   `env:", prefix=SERVICE_"`
}

func TestSharedConfigs_defaultsAreValid(t *testing.T) {
	t.Parallel()
	var cfg shared
	_, err := conf.Load(t.Context(), conf.Map(nil), &cfg)
	require.NoError(t, err)
	require.False(t, cfg.TLS.Enabled())
	require.Equal(t, conf.BlobFS, cfg.Blob.Driver)
	settings, err := conf.Describe(shared{})
	require.NoError(t, err)
	for _, s := range settings {
		require.NotEmpty(t, s.Doc, "%s needs a doc tag", s.Name)
		require.True(t, strings.HasPrefix(s.Name, "SERVICE_"))
	}
}

func TestSharedConfigs_errors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ vars, want string }{
		"listen":       {"LISTEN=8080", "SERVICE_LISTEN: must be host:port"},
		"pool":         {"DATABASE_MAX_CONNS=1", "SERVICE_DATABASE_MAX_CONNS: must be at least 2, got 1"},
		"statement":    {"DATABASE_STATEMENT_TIMEOUT=-1s", "must be positive, got -1s"},
		"half of tls":  {"TLS_CA=/a TLS_KEY=/k", "SERVICE_TLS_CERT: must be set because another TLS_ file is set"},
		"level":        {"LOG_LEVEL=loud", `SERVICE_LOG_LEVEL: must be debug, info, warn or error, got "loud"`},
		"format":       {"LOG_FORMAT=xml", "SERVICE_LOG_FORMAT: must be json or text"},
		"otlp":         {"OTLP_ENDPOINT=collector:4317", "SERVICE_OTLP_ENDPOINT: must be a URL"},
		"admin":        {"ADMIN_LISTEN=x", "SERVICE_ADMIN_LISTEN: must be host:port"},
		"drain":        {"DRAIN_DELAY=-1s", "SERVICE_DRAIN_DELAY: must not be negative"},
		"stop":         {"STOP_TIMEOUT=0s", "SERVICE_STOP_TIMEOUT: must be positive"},
		"stop grace":   {"STOP_GRACE=-1s", "SERVICE_STOP_GRACE: must not be negative"},
		"ready":        {"READY_TIMEOUT=0s", "SERVICE_READY_TIMEOUT: must be positive"},
		"driver":       {"BLOB_DRIVER=gcs", `SERVICE_BLOB_DRIVER: must be fs or s3, got "gcs"`},
		"short key":    {"BLOB_SIGNING_KEY=abc", "SERVICE_BLOB_SIGNING_KEY: must have at least 32 characters, got 3"},
		"s3 endpoint":  {"BLOB_DRIVER=s3", "SERVICE_BLOB_S3_ENDPOINT: must be set for the driver s3"},
		"s3 secret":    {"BLOB_DRIVER=s3 BLOB_S3_ENDPOINT=h:1", "SERVICE_BLOB_S3_SECRET_KEY: must be set for the driver s3"},
		"upload":       {"MAX_UPLOAD_MB=0", "SERVICE_MAX_UPLOAD_MB: must be from 1 to"},
		"public":       {"PUBLIC_URL=example.org", "SERVICE_PUBLIC_URL: must be a URL like"},
		"public query": {"PUBLIC_URL=https://h/?a=1", "SERVICE_PUBLIC_URL: must be a URL like"},
		"public user":  {"PUBLIC_URL=https://u:hunter2@h", "got \"https://u:xxxxx@h\""},
		"public slash": {"PUBLIC_URL=https://h/", "SERVICE_PUBLIC_URL: must not end in a slash"},
	} {
		vars := map[string]string{}
		for pair := range strings.FieldsSeq(c.vars) {
			key, value, _ := strings.Cut(pair, "=")
			vars["SERVICE_"+key] = value
		}
		var cfg shared
		_, err := conf.Load(t.Context(), conf.Map(vars), &cfg)
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestBlob_completeS3Settings(t *testing.T) {
	t.Parallel()
	var cfg shared
	loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{
		"SERVICE_BLOB_DRIVER": "s3", "SERVICE_BLOB_S3_ENDPOINT": "127.0.0.1:7070", "SERVICE_BLOB_S3_BUCKET": "b",
		"SERVICE_BLOB_S3_ACCESS_KEY": "a", "SERVICE_BLOB_S3_SECRET_KEY": "s", "SERVICE_BLOB_S3_PLAINTEXT": "true",
	}), &cfg)
	require.NoError(t, err)
	require.Empty(t, loaded.Warnings)
	require.True(t, cfg.Blob.S3.Plaintext)
	require.Equal(t, "us-east-1", cfg.Blob.S3.Region)
}
