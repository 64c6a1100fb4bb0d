package pgtest

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Before returns the migrations whose names are before the given one in their order, for tests of an upgrade from an
// earlier version.
func Before(tb testing.TB, migrations fs.FS, name string) fs.FS {
	tb.Helper()
	names, err := fs.Glob(migrations, "*.sql")
	require.NoError(tb, err)
	earlier := fstest.MapFS{}
	for _, one := range names {
		if one < name {
			data, err := fs.ReadFile(migrations, one)
			require.NoError(tb, err)
			earlier[one] = &fstest.MapFile{Data: data}
		}
	}
	require.NotEmpty(tb, earlier)
	return earlier
}
