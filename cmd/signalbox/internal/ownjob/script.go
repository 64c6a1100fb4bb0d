package ownjob

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/sbatch"
)

// WithScript returns the request with the script in the folder that its command names:
//   - a script with lines for sbatch, or with the name of one (.sbatch, .slurm), is read. It is the command itself, or follows a shell, as
//     in `sh train.sbatch`;
//   - another script, such as train.sh, is started by the interpreter of its first line, so that a node need not find it among its programs.
//
// Other commands stay as they are, such as an absolute path outside the folder, which names a program of the node. The error can be a
// *ScriptError.
func (r Request) WithScript(folder string) (Request, error) {
	at := scriptIndex(folder, r.Command)
	if at < 0 {
		return r, checkProgram(r.Command)
	}
	if ofNode(folder, r.Command[at]) {
		return r, nil
	}
	name, err := below(folder, r.Command[at])
	if err != nil {
		return r, err
	}
	text, err := readText(filepath.Join(folder, name))
	if err != nil {
		return r, fmt.Errorf("read the script: %w", err)
	}
	before, after := r.Command[:at], r.Command[at+1:]
	if !forSbatch(name, text) {
		interpreter := sbatch.Interpreter(text)
		switch {
		case at == 0 && len(interpreter) > 0:
			r.Command = slices.Concat(interpreter, []string{filepath.ToSlash(name)}, after)
		case at == 0 && strings.HasSuffix(name, ".py"):
			return r, fmt.Errorf("%[1]s does not begin with #!; write: python %[1]s", name)
		case at == 0 && strings.HasSuffix(name, ".sh"):
			return r, fmt.Errorf("%[1]s does not begin with #!; write: bash %[1]s", name)
		}
		return r, nil
	}
	flags, err := r.Flags.Overrides()
	if err != nil {
		return r, err
	}
	script, err := sbatch.Read(text, flags)
	if err != nil {
		return r, &ScriptError{File: name, Err: err}
	}
	if at > 0 {
		script.Interpreter = slices.Clone(before)
	}
	r.Script, r.ScriptPath, r.Command = script, name, slices.Clone(after)
	return r, nil
}

// checkProgram refuses a command whose first word is not a program, but a script that the folder does not have, or a line of the shell.
func checkProgram(command []string) error {
	if len(command) == 0 {
		return nil
	}
	program := command[0]
	if len(command) == 1 && strings.ContainsAny(program, " \t\n|&;<>$") {
		return fmt.Errorf("%q is not the name of a program; a line of the shell is run by: bash -c %[1]q", program)
	}
	if !filepath.IsAbs(program) && slices.Contains([]string{".py", ".sh", ".sbatch", ".slurm"}, path.Ext(filepath.ToSlash(program))) {
		return fmt.Errorf("the script %q %w", program, errOutside)
	}
	return nil
}

// ScriptError is what is wrong with a script. It contains sbatch.RefusedErrors.
type ScriptError struct {
	// File is the path of the script in the folder.
	File string
	Err  error
}

// Error implements error.
func (e *ScriptError) Error() string { return e.File + ": " + e.Err.Error() }

// Unwrap returns the error of the script.
func (e *ScriptError) Unwrap() error { return e.Err }

// scriptIndex returns the place of a script in a command: that of its first word, or, if this is a shell, that of the first file after
// it. It is -1 if there is none.
func scriptIndex(folder string, command []string) int {
	if len(command) == 0 {
		return -1
	}
	if !sbatch.Shell(command[:1]) {
		if plainName(command[0]) || !isFile(folder, command[0]) {
			return -1
		}
		return 0
	}
	for i, word := range command[1:] {
		option := strings.HasPrefix(word, "-")
		if option && !strings.HasPrefix(word, "--") && strings.Contains(word, "c") {
			return -1 // the next word is a text with commands
		}
		if !option && isFile(folder, word) {
			return i + 1
		}
	}
	return -1
}

// plainName reports whether a word can only be the name of a program, such as python, even if a file has this name.
func plainName(word string) bool { return !strings.ContainsAny(word, "./") }

func isFile(folder, name string) bool {
	if name == "" || strings.ContainsRune(name, 0) {
		return false
	}
	info, err := os.Stat(inside(folder, name))
	return err == nil && info.Mode().IsRegular()
}

// inside returns the path of a file that is named relative to the folder, or absolutely.
func inside(folder, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(folder, name)
}

// below returns the path of a file relative to the folder. Files outside of it are not sent, so that they cannot be started.
func below(folder, name string) (string, error) {
	if !filepath.IsAbs(name) {
		if _, err := inFolder(name); err != nil {
			return "", fmt.Errorf("the script %q %w", name, err)
		}
		return filepath.Clean(name), nil
	}
	whole, err := filepath.Abs(folder)
	if err != nil {
		return "", fmt.Errorf("find the folder: %w", err)
	}
	relative, err := filepath.Rel(whole, name)
	if err != nil || !filepath.IsLocal(relative) {
		return "", fmt.Errorf("the script %q %w", name, errOutside)
	}
	return relative, nil
}

// ofNode reports whether a file is a program of the node: its path is absolute and outside of the folder. Scripts for sbatch are
// excepted, because their lines would have no effect.
func ofNode(folder, name string) bool {
	if !filepath.IsAbs(name) {
		return false
	}
	if _, err := below(folder, name); !errors.Is(err, errOutside) {
		return false
	}
	text, err := readText(name)
	return err != nil || strings.ContainsRune(text, 0) || !forSbatch(name, text) // one that cannot be read here can be a program there
}

// errOutside reports a file outside of the folder.
var errOutside = errors.New("is not a file in the submitted folder; put it there and write its relative path")

// readText reads at most one byte more than a script may have.
func readText(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, sbatch.MaxScript+1))
	return string(raw), err
}

// forSbatch reports whether a script was written for sbatch.
func forSbatch(name, text string) bool {
	end := strings.ToLower(path.Ext(filepath.ToSlash(name)))
	return end == ".sbatch" || end == ".slurm" || sbatch.Has(text)
}
