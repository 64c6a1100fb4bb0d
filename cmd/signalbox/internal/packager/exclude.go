package packager

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// OwnIgnoreFile is the name of files with patterns. It takes precedence over gitIgnoreFile in all folders.
	OwnIgnoreFile = ".signalboxignore"
	gitIgnoreFile = ".gitignore"
	// maxIgnoreFile is the maximum size of a file with patterns in bytes.
	maxIgnoreFile = 1 << 20
)

// level has the patterns of a folder.
type level struct {
	base     string // path of the folder; empty for the top
	git, own []rule
	above    *level
}

// openLevel reads the files with patterns of a folder.
func openLevel(root *os.Root, base string, above *level) (*level, error) {
	l := &level{base: base, above: above}
	for name, rules := range map[string]*[]rule{gitIgnoreFile: &l.git, OwnIgnoreFile: &l.own} {
		file := path.Join(base, name)
		text, err := readIgnoreFile(root, file)
		if err != nil {
			return nil, err
		}
		*rules = parseRules(file, text)
	}
	return l, nil
}

// readIgnoreFile returns the content of a file with patterns; it is empty if there is none.
func readIgnoreFile(root *os.Root, file string) ([]byte, error) {
	info, err := root.Lstat(filepath.FromSlash(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shown(file), err)
	}
	if info.IsDir() {
		return nil, nil
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; replace it by one, so that its patterns are honoured", shown(file))
	}
	f, err := root.Open(filepath.FromSlash(file))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shown(file), err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shown(file), err)
	}
	if len(text) > maxIgnoreFile {
		return nil, fmt.Errorf("%s has more than %d bytes", shown(file), maxIgnoreFile)
	}
	return text, nil
}

// exclusion returns why a path is excluded, and "" if it is not. The last pattern that matches decides; the patterns of a
// folder come after those of the folders above it, and those of .signalboxignore after all others.
func (w *walker) exclusion(name string, folder bool, in *level) string {
	if repository(path.Base(name)) {
		return "built in: " + path.Base(name)
	}
	own := func(l *level) []rule { return l.own }
	git := func(l *level) []rule { return l.git }
	for _, rules := range []func(*level) []rule{own, git} {
		if r, ok := decide(name, folder, in, rules); ok {
			return reason(r)
		}
	}
	if r, ok := last(w.builtin, name, folder); ok {
		return reason(r)
	}
	return ""
}

func reason(r rule) string {
	if r.negated {
		return ""
	}
	return r.source
}

// decide returns the rule that decides about a path, of the rules of a folder and of those above it.
func decide(name string, folder bool, in *level, rules func(*level) []rule) (rule, bool) {
	for l := in; l != nil; l = l.above {
		below := name
		if l.base != "" {
			below = strings.TrimPrefix(name, l.base+"/")
		}
		if r, ok := last(rules(l), below, folder); ok {
			return r, true
		}
	}
	return rule{}, false
}

// last returns the last rule that matches a path.
func last(rules []rule, name string, folder bool) (rule, bool) {
	for _, r := range slices.Backward(rules) {
		if r.matches(name, folder) {
			return r, true
		}
	}
	return rule{}, false
}

// repository reports whether a name is that of the data of a version control system, or of a local installation. No pattern
// includes it.
func repository(base string) bool {
	switch base {
	case ".git", ".hg", ".svn", ".signalbox":
		return true
	default:
		return false
	}
}

// builtinRules returns the patterns that come before all others.
func builtinRules() []rule {
	var rules []rule
	for _, pattern := range []string{
		".venv/", "venv/", "node_modules/", "__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".tox/",
		".ipynb_checkpoints/", ".DS_Store", ".#*", "*.swp",
	} {
		if r, ok := parseRule(pattern); ok {
			r.source = "built in: " + pattern
			rules = append(rules, r)
		}
	}
	return rules
}
