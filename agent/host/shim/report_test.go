package shim

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The reports of a start are read whole, however long the failure and the missing paths are.
func TestStartReport_longest(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	var args []string
	for range 2 * maxMissing {
		args = append(args, strings.Repeat("/"+strings.Repeat("\x01", maxMissingPath/2-1), 2)) // JSON needs six bytes for each
	}
	lost := missing(args)
	require.Equal(t, args[:maxMissing], lost)
	startReport{Missing: lost}.send(&pipe)
	startReport{Failure: "start " + strings.Repeat("\x01", 200<<10) + ": file name too long"}.send(&pipe)
	require.LessOrEqual(t, pipe.Len(), maxReports)
	got, err := readReports(&pipe)
	require.NoError(t, err)
	require.Equal(t, lost, got.Missing)
	require.True(t, strings.HasPrefix(got.Failure, "start \x01"))
	require.True(t, strings.HasSuffix(got.Failure, ": file name too long"), "the reason is at the end")
}
