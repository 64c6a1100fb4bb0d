package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
)

// due returns the trust configuration with Due set to the current time: rows written earlier must be sealed, and heads
// signed earlier must be stored outside the database.
func (b *harness) due(t *testing.T) audit.Trust {
	t.Helper()
	trust := b.trust(t)
	trust.Due = b.clock.Now()
	return trust
}

// While no sealer runs, changes of unsealed rows cannot be detected. Verify therefore reports rows that are not
// sealed in time.
func TestVerify_overdueUnsealedRow(t *testing.T) {
	t.Parallel()
	b := filled(t, 1)
	b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
	trust := b.due(t)
	trust.Due = trust.Due.Truncate(time.Millisecond) // the time of the row is that in its id
	report, err := audit.Verify(t.Context(), b.pool, trust)
	require.NoError(t, err)
	require.Nil(t, report.Broken(), "the row is not due yet")
	b.clock.Advance(time.Minute)
	report, err = audit.Verify(t.Context(), b.pool, b.due(t))
	require.NoError(t, err)
	require.Len(t, report.Breaks, 1)
	require.Contains(t, report.Broken().String(), ": the row was not sealed in time")
	_, err = b.sealer(t).RunOnce(t.Context())
	require.NoError(t, err)
	report, err = audit.Verify(t.Context(), b.pool, b.due(t))
	require.NoError(t, err)
	require.Nil(t, report.Broken())
}

// An attacker who removes stored heads could truncate the log unnoticed. Verify therefore reports missing heads, even
// if newer heads were stored later.
func TestVerify_missingOutsideHeads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	path := filepath.Join(t.TempDir(), "heads.jsonl")
	b.file = audit.NewFile(path)
	s := b.sealer(t)
	round := func() {
		b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
		_, err := s.RunOnce(t.Context())
		require.NoError(t, err)
	}
	for range 3 {
		round()
	}
	young := b.due(t)
	b.clock.Advance(time.Minute)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	check := func(trust audit.Trust, want string) {
		t.Helper()
		report, err := audit.Verify(t.Context(), b.pool, trust)
		require.NoError(t, err)
		if want == "" {
			require.Nil(t, report.Broken())
			return
		}
		require.Len(t, report.Breaks, 1)
		require.Equal(t, want+": the signed heads up to this row are not stored outside the database", report.Broken().String())
	}
	check(b.due(t), "")
	lines := strings.SplitAfter(strings.TrimPrefix(string(whole), "\n"), "\n")
	for left, want := range map[string]string{"": "rows 1 to 3", lines[0] + lines[1]: "row 3", lines[1] + lines[2]: "row 1"} {
		require.NoError(t, os.WriteFile(path, []byte(left), 0o600))
		check(b.due(t), want)
	}
	young.Outside = nil
	check(young, "")
	require.NoError(t, os.Remove(path))
	round()
	check(b.due(t), "rows 1 to 3")
}
