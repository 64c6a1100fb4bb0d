package boot

import (
	"encoding/base64"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// repeatedKey returns the base64 of a key of 32 bytes that repeats the given word.
func repeatedKey(word string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(word, 32))[:32])
}

// badSecrets lists, by setting, values with which a separate process must not start: missing, short, and examples.
// If the key of signed URLs is missing, the object store generates one and saves it in its folder.
func badSecrets() map[string][]string {
	short := base64.StdEncoding.EncodeToString([]byte("9vK2mTq7Lw4zR8sXc1Yb6Nd3Pf5Gh0J"))
	return map[string][]string{
		"SERVICE_KEYRING":                 {"", "changeme", "k1", "k1 " + short, "k1 " + repeatedKey("changeme"), "k1 " + repeatedKey("a"), "# only a remark"},
		"SERVICE_AUDIT_KEY":               {"", "changeme", "9vK2mTq7Lw4zR8sXc1Yb6Nd3Pf5Gh0Jq", short, repeatedKey("secret"), repeatedKey("a"), repeatedKey("\x00")},
		"SERVICE_BLOB_SIGNING_KEY":        {"changeme", "9vK2mTq7Lw4zR8sXc1Yb6Nd3Pf5Gh0J", strings.Repeat("x", 32), strings.Repeat("changeme", 4), strings.Repeat("abcd", 10)},
		"SERVICE_BLOB_S3_SECRET_KEY":      {"", "minioadmin", "changeme", "<secret>"},
		"SERVICE_AUTH_DATABASE_URL":       {"", "postgres://signalbox_auth:changeme@db/signalbox", "postgres://postgres:postgres@db/signalbox"},
		"SERVICE_AUTH_DATABASE_OWNER_URL": {"", "postgres://signalbox_auth_owner:password@db/signalbox"},
	}
}

// Every secret setting must be in the table, so that example values of new settings are rejected too.
func TestBadSecrets_coverEverySecretSetting(t *testing.T) {
	t.Parallel()
	shared, err := conf.Describe(Settings{})
	require.NoError(t, err)
	own, err := conf.Describe(ServiceSettings{})
	require.NoError(t, err)
	var want []string
	for prefix, settings := range map[string][]conf.Setting{"": shared, "SERVICE_AUTH_": own} {
		for _, s := range settings {
			if s.Secret {
				want = append(want, prefix+s.Name)
			}
		}
	}
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(badSecrets())))
}

func TestProcess_rejectsDefaultAndEmptySecrets(t *testing.T) {
	t.Parallel()
	_, env := installation(t, "auth")
	env = with(env, "SERVICE_AUTH_DATABASE_URL", "postgres://signalbox_auth:9vK2mTq7Lw4z@127.0.0.1:1/x",
		"SERVICE_KEYRING", "k1 "+seed('k').Reveal())
	migrations := func() (fs.FS, error) { return fstest.MapFS{}, nil }
	spec := Spec{Name: "auth", Migrations: migrations, Build: nil}
	for name, values := range badSecrets() {
		for _, value := range values {
			one, args := with(env, name, value), []string(nil)
			switch name {
			case "SERVICE_BLOB_S3_SECRET_KEY":
				one = with(one, "SERVICE_BLOB_DRIVER", "s3", "SERVICE_BLOB_S3_ENDPOINT", "s3:9000", "SERVICE_BLOB_S3_BUCKET", "b", "SERVICE_BLOB_S3_ACCESS_KEY", "a")
			case "SERVICE_AUTH_DATABASE_OWNER_URL":
				args = []string{"migrate"}
			}
			if name == "SERVICE_KEYRING" && value == "" {
				continue // only some services need a keyring: see TestServe_secretKeeperNeedsKeyring
			}
			_, _, err := call(t, spec, one, args...)
			want := strings.TrimPrefix(name, "SERVICE_BLOB_")
			require.ErrorContains(t, err, want, "%s=%s", name, value)
			if len(value) > 16 {
				require.NotContains(t, err.Error(), value, name)
			}
		}
	}
}

func TestServe_secretKeeperNeedsKeyring(t *testing.T) {
	t.Parallel()
	e, _, _ := env(t)
	l, err := e.Net.Listen("auth")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var workers []process.Worker
	workers, err = e.Serve(sealedService{newKeys(t)}, nil, l)
	require.ErrorContains(t, err, "SERVICE_KEYRING must be set")
	require.Empty(t, workers)
}
