package pysdk_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	pysdk "github.com/signalbox-dev/signalbox/sdk/python"
)

func TestFiles_containWholePackage(t *testing.T) {
	t.Parallel()
	tree, err := pysdk.Files()
	require.NoError(t, err)

	onDisk := []string{"src/signalbox/py.typed"}
	for _, pattern := range []string{"src/signalbox/*.py", "src/signalbox/*/*.py"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		onDisk = append(onDisk, found...)
	}
	for _, path := range onDisk {
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		got, err := fs.ReadFile(tree, strings.TrimPrefix(filepath.ToSlash(path), "src/"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), path)
	}
}

func TestFiles_containNothingElse(t *testing.T) {
	t.Parallel()
	tree, err := pysdk.Files()
	require.NoError(t, err)

	found, err := fs.ReadDir(tree, ".")
	require.NoError(t, err)
	require.Len(t, found, 1, "the tree for PYTHONPATH must contain only the package signalbox, so that it hides no other module")
	require.Equal(t, "signalbox", found[0].Name())
	for _, needed := range []string{"__init__.py", "__main__.py", "run.py", "py.typed"} {
		_, err := fs.Stat(tree, "signalbox/"+needed)
		require.NoError(t, err)
	}
}
