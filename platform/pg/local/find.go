package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNotFound is what Find answers where there is no Postgres.
var ErrNotFound = errors.New("no Postgres server found")

// Finder looks for the folder that holds the programs postgres and initdb. The
// zero value is of no use; tests hide places by its fields.
type Finder struct {
	LookPath   func(file string) (string, error) // the search along PATH
	DebianRoot string                            // holds <version>/bin
}

// Find looks in the usual places.
func Find(setting, cacheDir string) (string, error) {
	return Finder{LookPath: exec.LookPath, DebianRoot: "/usr/lib/postgresql"}.Find(setting, cacheDir)
}

// Find answers the folder of the programs. The order: the explicit setting (a
// wrong one is an error, never skipped), PATH, Debian's folders from the newest
// version down, the project's cache as npm's @embedded-postgres unpacks.
func (f Finder) Find(setting, cacheDir string) (string, error) {
	if setting != "" {
		dir, err := complete(setting)
		if err != nil {
			return "", fmt.Errorf("the Postgres folder that was set: %w", err)
		}
		return dir, nil
	}
	for _, candidate := range slices.Concat(f.onPath(), f.debian(), cached(cacheDir)) {
		if dir, err := complete(candidate); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w on PATH, in %s or in %s: install Debian's package postgresql, or run `make demo`, which puts one into the cache",
		ErrNotFound, f.DebianRoot, cacheDir)
}

// onPath follows links: PATH may name a link to one program of the folder only.
func (f Finder) onPath() []string {
	var dirs []string
	for _, name := range []string{"postgres", "initdb"} {
		path, err := f.LookPath(name)
		if err != nil {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs
}

func (f Finder) debian() []string {
	dirs, _ := filepath.Glob(filepath.Join(f.DebianRoot, "*", "bin"))
	version := func(dir string) int {
		v, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return v
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	return dirs
}

func cached(cacheDir string) []string {
	if cacheDir == "" {
		return nil
	}
	var dirs []string
	for _, layout := range []string{
		"bin", "native/bin", "*/bin", "*/native/bin", "node_modules/@embedded-postgres/*/native/bin",
	} {
		found, _ := filepath.Glob(filepath.Join(cacheDir, layout))
		dirs = append(dirs, found...)
	}
	return dirs
}

// complete checks that both programs are there and may be run.
func complete(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", dir, err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		info, err := os.Stat(filepath.Join(abs, name))
		if err != nil {
			return "", fmt.Errorf("look for %s: %w", name, err)
		}
		if info.IsDir() || info.Mode()&0o111 == 0 {
			return "", fmt.Errorf("%s in %s cannot be run", name, abs)
		}
	}
	return abs, nil
}
