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

// ErrNotFound is the error of Find if no folder has the programs.
var ErrNotFound = errors.New("no Postgres server found")

// Finder searches for the folder with the programs postgres and initdb. All fields must be set; tests replace
// them.
type Finder struct {
	LookPath   func(file string) (string, error) // searches PATH
	DebianRoot string                            // contains <version>/bin
}

// Find calls Finder.Find with the PATH of this process and the Debian folder of this machine.
func Find(setting, cacheDir string) (string, error) {
	return Finder{LookPath: exec.LookPath, DebianRoot: "/usr/lib/postgresql"}.Find(setting, cacheDir)
}

// Find returns the folder of the programs. It tries in this order: the explicit setting (an error if it is wrong),
// PATH, the folders of Debian from the newest version down, and cacheDir in the folder layouts of npm's
// @embedded-postgres.
func (f Finder) Find(setting, cacheDir string) (string, error) {
	if setting != "" {
		dir, err := complete(setting)
		if err != nil {
			return "", fmt.Errorf("check the configured Postgres folder: %w", err)
		}
		return dir, nil
	}
	for _, candidate := range slices.Concat(f.onPath(), f.debian(), cached(cacheDir)) {
		if dir, err := complete(candidate); err == nil {
			return dir, nil
		}
	}
	const remedy = "install the Debian package postgresql, or run `make demo`, which downloads Postgres into the cache"
	places := "on PATH or in " + f.DebianRoot
	if cacheDir != "" {
		places = "on PATH, in " + f.DebianRoot + " or in " + cacheDir
	}
	return "", fmt.Errorf("%w %s; "+remedy, ErrNotFound, places)
}

// onPath returns the folders of the programs on PATH. It also follows links, because PATH may contain a link to only
// one of the programs.
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

// complete returns the absolute path of dir if both programs exist and are executable.
func complete(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", dir, err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		info, err := os.Stat(filepath.Join(abs, name))
		if err != nil {
			return "", fmt.Errorf("find %s: %w", name, err)
		}
		if info.IsDir() || info.Mode()&0o111 == 0 {
			return "", fmt.Errorf("%s in %s is not executable", name, abs)
		}
	}
	return abs, nil
}
