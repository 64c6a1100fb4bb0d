package pyenv

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkLayout returns a *BuildError if a file or folder of the environment that the agent will change is a link. Code
// of a package may have created such a link to make the agent change other files.
func checkLayout(dir string) error {
	for name, kind := range map[string]fs.FileMode{"": fs.ModeDir, "bin": fs.ModeDir, "pyvenv.cfg": 0} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode().Type() != kind {
			return failed("the installer did not create a valid environment: %q is missing or is a link", filepath.Join("venv", name))
		}
	}
	return nil
}

// rename changes pyvenv.cfg and the environment's scripts: in both, the final path replaces the path of the build
// folder. The first line of a script contains the full path of the interpreter.
func rename(bin, from, to string) error {
	entries, err := os.ReadDir(bin)
	if err != nil {
		return fmt.Errorf("list the environment's programs: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if err := rewrite(filepath.Join(bin, e.Name()), from, to); err != nil {
			return err
		}
	}
	return rewrite(filepath.Join(filepath.Dir(bin), "pyvenv.cfg"), from, to)
}

// maxScript is the maximum size of a script, in bytes. Larger files are binaries, which do not contain the
// path.
const maxScript = 1 << 20

func rewrite(path, from, to string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the size of an environment's program: %w", err)
	}
	if info.Size() > maxScript {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read an environment's program: %w", err)
	}
	if bytes.IndexByte(text, 0) >= 0 || !bytes.Contains(text, []byte(from)) {
		return nil
	}
	changed := bytes.ReplaceAll(text, []byte(from), []byte(to))
	if err := os.WriteFile(path, changed, info.Mode()&fs.ModePerm); err != nil {
		return fmt.Errorf("write an environment's program: %w", err)
	}
	return nil
}
