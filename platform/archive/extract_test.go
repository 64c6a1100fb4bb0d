package archive_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

func TestExtract(t *testing.T) {
	t.Parallel()
	plain := newTarBuilder(t).folder("a/").file("./a/lock", "text").file("huge", strings.Repeat("x", 1000)).end()
	for _, data := range [][]byte{plain, packed(t, plain)} {
		for name, want := range map[string]string{"a/lock": "text", "huge": strings.Repeat("x", 100), "a": "", "lock": "", "A/lock": ""} {
			got, found, err := archive.Extract(bytes.NewReader(data), int64(len(data)), name, 100)
			require.NoError(t, err)
			require.Equal(t, want != "", found, name)
			require.Equal(t, want, string(got), name)
		}
		_, _, err := archive.Extract(bytes.NewReader(data[:len(data)/2]), int64(len(data)), "none", 100)
		require.ErrorContains(t, err, "not a complete tar file")
	}
}
