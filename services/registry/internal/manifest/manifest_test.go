package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
)

func file(path string, size int64) manifest.File {
	return manifest.File{Path: path, Size: size, SHA256: strings.Repeat("0", 64)}
}

func TestNew_sumOverflows(t *testing.T) {
	t.Parallel()
	_, _, _, err := manifest.New([]manifest.File{file("a", 1<<62), file("b", 1<<62)}, 1<<62, "split it")
	require.True(t, fault.Is(err, fault.TooLarge), "%v", err)
}

func TestNew(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		files []manifest.File
		kind  fault.Kind
		words string
	}{
		"none":            {nil, "", ""},
		"some":            {[]manifest.File{file("b/c", 1), file("a", 2), file("b/d", 3), file("b.c", 0)}, "", ""},
		"at the limit":    {[]manifest.File{file("a", 100), file("b", 100)}, "", ""},
		"over the limit":  {[]manifest.File{file("a", 1), file("b", 101)}, fault.TooLarge, "file b exceeds"},
		"duplicate":       {[]manifest.File{file("a", 1), file("b", 1), file("a", 2)}, fault.Refused, "duplicate path a"},
		"file and folder": {[]manifest.File{file("a/b/c", 1), file("a", 1)}, fault.Refused, "a is both a file and a folder"},
		"nested":          {[]manifest.File{file("a/b/c", 1), file("a/b", 1)}, fault.Refused, "a/b is both a file and a folder"},
		"sibling between": {[]manifest.File{file("a", 1), file("a-b", 1), file("a/b", 1)}, fault.Refused, "a is both a file and a folder"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, _, err := manifest.New(c.files, 100, "split it")
			if c.kind == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, fault.Is(err, c.kind), "%v", err)
			require.Contains(t, fault.From(err).Text(), c.words)
		})
	}
}

func TestNew_paths(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "a/b.jsonl", "..a", "a..b/c", "ü/ x", ".hidden", "a:b"} {
		_, _, _, err := manifest.New([]manifest.File{file(good, 1)}, 100, "split it")
		require.NoError(t, err, good)
	}
	for _, bad := range []string{"", ".", "..", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a/.", "a\\b", "a\x00b", "a\nb", "a\x7f", "a/../../b"} {
		_, _, _, err := manifest.New([]manifest.File{file(bad, 1)}, 100, "split it")
		require.True(t, fault.Is(err, fault.Refused), "%q: %v", bad, err)
	}
}

func TestNew_digestIgnoresOrder(t *testing.T) {
	t.Parallel()
	a, b := file("a", 1), file("b", 2)
	given := []manifest.File{b, a}
	sorted, digest, total, err := manifest.New(given, 100, "split it")
	require.NoError(t, err)
	require.Equal(t, []manifest.File{a, b}, sorted)
	require.Equal(t, []manifest.File{b, a}, given, "the argument is not changed")
	require.EqualValues(t, 3, total)
	_, same, _, err := manifest.New([]manifest.File{a, b}, 100, "split it")
	require.NoError(t, err)
	require.Equal(t, digest, same)
	b.Path = "c"
	_, other, _, err := manifest.New([]manifest.File{a, b}, 100, "split it")
	require.NoError(t, err)
	require.NotEqual(t, digest, other)
}
