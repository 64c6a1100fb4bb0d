package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// check compares the statements below the folder root with those that ran. It returns the number of statements and the
// findings: the statements that no test ran, and the exceptions that are not needed.
func check(root, ran, allow string) (all int, findings []string, err error) {
	src, err := readSource(root)
	if err != nil {
		return 0, nil, err
	}
	texts, err := readRan(root, ran)
	if err != nil {
		return 0, nil, err
	}
	allowed, err := readAllowed(allow)
	if err != nil {
		return 0, nil, err
	}
	statements := src.statements()
	used := map[string]bool{}
	for _, s := range statements {
		if slices.ContainsFunc(texts, s.matches) {
			continue
		}
		i := slices.IndexFunc(allowed, func(entry string) bool { return strings.HasPrefix(s.path+": "+s.text(), entry) })
		if i < 0 {
			findings = append(findings, s.String())
			continue
		}
		used[allowed[i]] = true
	}
	for _, entry := range allowed {
		if !used[entry] {
			findings = append(findings, fmt.Sprintf("%s: this exception is not needed: %s", allow, entry))
		}
	}
	return len(statements), findings, nil
}

// readRan returns the distinct statements that pgtest wrote. The name of each file is the escaped path of the tested
// package. Files of packages that no longer exist are skipped.
func readRan(root, folder string) ([]string, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, f := range files {
		pkg, err := url.PathUnescape(f.Name())
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", f.Name(), err)
		}
		if _, err := os.Stat(filepath.Join(root, pkg)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(raw)) {
			text, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
			if err != nil {
				return nil, fmt.Errorf("file %s: line %q: %w", f.Name(), line, err)
			}
			seen[text] = true
		}
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("%s has no statements; run the tests with PGTEST_STATEMENTS set to this folder", folder)
	}
	texts := make([]string, 0, len(seen))
	for text := range seen {
		texts = append(texts, text)
	}
	return texts, nil
}

// readAllowed reads the exceptions. The text after a # is the reason.
func readAllowed(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var allowed []string
	for line := range strings.Lines(string(raw)) {
		entry, _, _ := strings.Cut(" "+line, " # ")
		if entry = strings.TrimSpace(entry); entry != "" {
			allowed = append(allowed, entry)
		}
	}
	return allowed, nil
}
