package allinone

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// badSecrets lists, by setting, values with which signalboxd must not start. If a secret is not set at all, the
// process generates one and saves it in its folder, or does not need it.
func badSecrets() map[string][]string {
	return map[string][]string{
		"SERVICE_KEYRING":                  {"changeme", "k1 c2hvcnQ=", "k1 Y2hhbmdlbWVjaGFuZ2VtZWNoYW5nZW1lY2hhbmdlbWU="},
		"SERVICE_AUDIT_KEY":                {"changeme", "c2hvcnQ=", "Y2hhbmdlbWVjaGFuZ2VtZWNoYW5nZW1lY2hhbmdlbWU="},
		"SERVICE_BLOB_SIGNING_KEY":         {"changeme", "9vK2mTq7Lw4zR8sXc1Yb6Nd3Pf5Gh0J", strings.Repeat("x", 32)},
		"SERVICE_BLOB_S3_SECRET_KEY":       {"", "minioadmin", "changeme"},
		"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": {"short", "password", "12345678", "changeme", "admin123", "aaaaaaaaaaaa"},
		"SERVICE_DATABASE_ADMIN_URL":       {"postgres://postgres:postgres@db/x", "postgres://postgres:changeme@db/x"},
		"SERVICE_OIDC_CLIENT_SECRET":       {"", "secret", "changeme", "<client secret>"},
		"SERVICE_REDIS_URL":                {"redis://:changeme@cache:6379/0"},
		"SERVICE_AGENT_JOIN_TOKEN":         {"changeme"},
	}
}

func TestBadSecrets_coverEverySecretSetting(t *testing.T) {
	t.Parallel()
	settings, err := conf.Describe(Settings{})
	require.NoError(t, err)
	var want []string
	for _, s := range settings {
		if s.Secret {
			want = append(want, s.Name)
		}
	}
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(badSecrets())))
}

func TestRun_rejectsDefaultAndEmptySecrets(t *testing.T) {
	t.Parallel()
	for name, values := range badSecrets() {
		for _, value := range values {
			env := map[string]string{"SERVICE_DATA": folderOf(t), "SERVICE_LISTEN": "127.0.0.1:0", name: value}
			switch name {
			case "SERVICE_BLOB_S3_SECRET_KEY":
				env["SERVICE_BLOB_DRIVER"], env["SERVICE_BLOB_S3_ENDPOINT"], env["SERVICE_BLOB_S3_BUCKET"] = "s3", "s3:9000", "b"
				env["SERVICE_BLOB_S3_ACCESS_KEY"] = "a"
			case "SERVICE_OIDC_CLIENT_SECRET":
				env["SERVICE_OIDC_ISSUER"], env["SERVICE_OIDC_CLIENT_ID"], env["SERVICE_OIDC_ADMIN_GROUPS"] = "https://login.example.com", "c", "a"
			}
			_, log, err := runInvalid(t, env, Options{})
			require.ErrorContains(t, err, name, "%s=%s", name, value)
			require.NotContains(t, log.String(), "serving")
		}
	}
}
