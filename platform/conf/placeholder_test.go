package conf_test

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

type guarded struct {
	Secret secret.String `env:"SERVICE_X_SECRET"`
	Name   string        `env:"SERVICE_X_NAME"`
}

func TestLoad_rejectsPlaceholderSecret(t *testing.T) {
	t.Parallel()
	for value, ok := range map[string]bool{
		"changeme": false, "CHANGE_ME": false, "please-change-me-now": false, "change-this-to-32-bytes-of-random": false, "<your key>": false,
		"secret": false, "SECRET": false, "secretsecretsecret": false, "password": false, "minioadmin": false, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": false,
		"00000000": false, "12345678": false, "postgres://postgres:postgres@db:5432/x": false, "postgres://app:changeme@db/x": false,
		"redis://:password@cache:6379/0": false, "example": false, " admin ": false, "replace_me": false, "your-secret-here": false,
		"": true, "x": true, "postgres://app@%2Frun%2Fpostgresql/x": true, "postgres://app:p9vK2mTq7Lw4@db/password": true, "redis://cache:6379/0": true,
		"correct horse battery": true, "p9vK2mTq7Lw4": true, "k1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=": true, "the secret of the sea": true,
	} {
		var cfg guarded
		_, err := conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_X_SECRET": value, "SERVICE_X_NAME": "changeme"}), &cfg)
		if ok {
			require.NoError(t, err, value)
			require.Equal(t, value, cfg.Secret.Reveal())
			continue
		}
		require.EqualError(t, err, "SERVICE_X_SECRET: is a placeholder, not a secret; generate a random value", "the error must not quote the value %s", value)
	}
}

func TestLoad_rejectsPlaceholderSecretFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte("changeme\n"), 0o600))
	var cfg guarded
	_, err := conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_X_SECRET_FILE": path}), &cfg)
	require.ErrorContains(t, err, "SERVICE_X_SECRET: is a placeholder")
}

func TestLoad_acceptsRandomSecrets(t *testing.T) {
	t.Parallel()
	for range 2000 {
		raw := make([]byte, 12)
		_, err := rand.Read(raw)
		require.NoError(t, err)
		var cfg guarded
		text := base64.StdEncoding.EncodeToString(raw)
		_, err = conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_X_SECRET": text}), &cfg)
		require.NoError(t, err, text)
	}
}
