// Package redistest finds a Redis-compatible server for tests: a program in PATH, or the pinned server that
// scripts/tools/redis.sh installs into .cache. If there is no server, the test fails; it is never skipped.
package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Program returns the path of the server program, which it installs if necessary.
func Program(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		script := filepath.Join(dir, "scripts", "tools", "redis.sh")
		if _, err := os.Stat(script); err != nil {
			continue
		}
		cmd := exec.CommandContext(t.Context(), script)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("install a Redis server with %s: %v", script, err)
		}
		return strings.TrimSpace(string(out))
	}
	t.Fatal("no folder above this test contains scripts/tools/redis.sh")
	return ""
}
