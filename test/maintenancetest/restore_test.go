package maintenancetest

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// perKind returns how many credentials of each kind the test revokes. With RESTORE=all it revokes about a thousand in
// total.
func perKind() int {
	if os.Getenv("RESTORE") == "all" {
		return 143
	}
	return 4
}

// kinds returns the kinds of installation to restore: one, which the seed selects, or both with RESTORE=all.
func kinds(t *testing.T) []string {
	t.Helper()
	drawn := testenv.DrawnKinds(t)
	if os.Getenv("RESTORE") == "all" {
		drawn = testenv.Kinds()
	}
	return slices.Sorted(maps.Keys(drawn))
}

// TestRestore revokes credentials of eight kinds after a backup and restores the backup, onto the old host and onto an
// empty one. No revoked credential may be accepted. Every credential that was never revoked must be accepted.
func TestRestore(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds(t) {
		t.Run(kind, func(t *testing.T) { testRestore(t, newRestoreHarness(t, kind)) })
	}
}

func testRestore(t *testing.T, h *restoreHarness) {
	t.Helper()
	var revoked, kept []credential
	for n := range perKind() {
		revoked = append(revoked, h.create(n)...)
	}
	for n := range 2 {
		kept = append(kept, h.create(perKind()+n)...)
	}
	revoked = append(revoked, h.signingKey()) // last: its revocation ends all access tokens
	h.stop()
	h.backUp()

	h.start()
	h.admin = signIn(t, h.Installation)
	for _, c := range revoked {
		c.revoke()
	}
	h.stop()
	stopped := time.Now().UTC().Format(time.RFC3339)

	t.Log("restore onto an empty host with copies of the keys, the objects and the audit folder")
	h.leave()
	h.restore()
	h.startRefused(h.refusal)
	out, err := h.settle()
	require.Error(t, err, "the command must require --stopped-at, because a copied journal may lack the last revocations")
	require.Contains(t, out, "--stopped-at")
	_, err = h.settle("--stopped-at", stopped)
	require.NoError(t, err)
	h.requireAccepted(t, revoked, kept)

	t.Log("restore onto the old host")
	h.comeBack()
	h.restore()
	h.startRefused(h.refusal)
	_, err = h.settle()
	require.NoError(t, err)
	h.requireAccepted(t, revoked, kept)

	t.Log("restore without the journal of revocations")
	h.restore()
	require.NoError(t, os.RemoveAll(filepath.Join(h.auditDir(), "revocations")))
	h.startRefused(h.refusal)
	out, err = h.settle()
	require.Error(t, err)
	require.Contains(t, out, "there is no journal")
	_, err = h.settle("--revoke-all", "--admin", "admin")
	require.NoError(t, err)
	h.requireAccepted(t, append(revoked, kept...), nil)
}

// refusal tries to sign in until a service responds, and returns the response.
func (h *restoreHarness) refusal() (got response) {
	h.T.Helper()
	body := `{"username": "admin", "password": "` + h.Password.Reveal() + `"}`
	h.Until(h.T.Context(), "a service responds", func() bool {
		var err error
		got, err = request(h.T.Context(), h.URL, "", http.MethodPost, "/api/auth/login", body)
		return err == nil && !strings.Contains(got.body, "service_unreachable")
	})
	return got
}

// requireMaintenance requires that requests are refused until the command `signalbox-setup restored` has run.
func requireMaintenance(t testing.TB, refusal func() response) {
	t.Helper()
	got := refusal()
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
	require.Equal(t, "maintenance", got.code(t), got.body)
	require.Contains(t, got.body, "signalbox-setup restored")
}

// requireAccepted starts the processes. It requires that all credentials in kept are accepted, and none in revoked.
func (h *restoreHarness) requireAccepted(t *testing.T, revoked, kept []credential) {
	t.Helper()
	h.start()
	wrong := map[string]int{}
	for _, c := range revoked {
		if c.accepted() {
			wrong["accepted after its revocation: "+c.kind]++
		}
	}
	for _, c := range kept {
		if !c.accepted() {
			wrong["refused but never revoked: "+c.kind]++
		}
	}
	require.Empty(t, wrong)
	h.admin = signIn(t, h.Installation)
	found := do(t, h.URL, h.admin, http.MethodGet, "/api/admin/audit?action=installation.restored", "")
	require.Equal(t, http.StatusOK, found.status, found.body)
	require.Positive(t, strings.Count(found.body, "installation.restored"))
	checked := do(t, h.URL, h.admin, http.MethodPost, "/api/admin/audit/verify", "{}")
	require.Equal(t, http.StatusOK, checked.status, checked.body)
	require.NotContains(t, checked.body, `"ok":false`, checked.body)
	h.stop()
}
