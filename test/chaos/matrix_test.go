package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMatrixIsWhole(t *testing.T) {
	t.Parallel()
	rows := matrix([]string{"a", "b", "c"})
	require.Len(t, rows, 3*len(stages()))
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.String()] = true
	}
	require.Len(t, seen, len(rows))
}

func TestSomeRowsAreSpread(t *testing.T) {
	t.Parallel()
	rows := some(matrix([]string{"auth", "jobs", "ingest", "registry", "inference", "gateway", "agent"}), 4)
	stagesSeen, victims := map[stage]bool{}, map[string]bool{}
	for _, r := range rows {
		stagesSeen[r.stage], victims[r.victim] = true, true
	}
	require.Len(t, stagesSeen, 4)
	require.Len(t, victims, 4)
}
