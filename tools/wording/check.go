package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// finding is one word that breaks a rule, with its file and line.
type finding struct {
	path string
	line int
	word string
	hint string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q: %s", f.path, f.line, f.word, f.hint)
}

// passage is a piece of prose and the line on which it begins.
type passage struct {
	line int
	text string
}

// check reads every file below root that git tracks or would add, except exempt files. It returns the findings that
// allowFile does not permit, in the order of the files and lines.
func check(ctx context.Context, root, allowFile string) ([]finding, error) {
	allowed, err := readAllowed(allowFile)
	if err != nil {
		return nil, err
	}
	paths, err := files(ctx, root)
	if err != nil {
		return nil, err
	}
	var findings []finding
	for _, path := range paths {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		for _, f := range checkFile(path, raw) {
			if !permitted(allowed, path, f.word) {
				findings = append(findings, f)
			}
		}
	}
	return findings, nil
}

// files returns the paths below root that git tracks or would add, without deleted and exempt files.
func files(ctx context.Context, root string) ([]string, error) {
	list := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", root, err)
	}
	var paths []string
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		_, err := os.Lstat(filepath.Join(root, path)) // git still lists a deleted file until the deletion is committed
		if err == nil && !exempt(path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// permitted reports whether a word is allowed in a file or in one of the folders above it.
func permitted(allowed map[string]bool, file, word string) bool {
	for place := file; place != "."; place = filepath.Dir(place) {
		if allowed[place+": "+word] {
			return true
		}
	}
	return false
}

// readAllowed reads the file of exceptions. The text after a # is the reason.
func readAllowed(path string) (map[string]bool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	allowed := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		entry, _, _ := strings.Cut(line, "#")
		if entry = strings.TrimSpace(entry); entry != "" {
			allowed[entry] = true
		}
	}
	return allowed, nil
}

// exempt reports whether a file contains text that is not to be checked: generated code, the specification and
// quotations from it, the word list itself, test data, and files that other tools write.
func exempt(path string) bool {
	for _, prefix := range []string{"gen/", "docs/specification.md", "proto/baseline/", "LICENSE", "tools/wording/", "docs/contributing/go-style.md"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return strings.Contains(path, "/testdata/") || strings.HasSuffix(path, ".lock") || strings.HasSuffix(path, "package-lock.json")
}

// fileType returns the extension of a file, which selects how the file is read. For docs/rules.md and a Makefile it
// returns the name, because they are read differently. The templates of a Helm chart are text, not YAML.
func fileType(path string) string {
	if strings.Contains(path, "helm/") && strings.Contains(path, "/templates/") {
		return ".tpl"
	}
	if path == "docs/rules.md" || filepath.Base(path) == "Makefile" {
		return filepath.Base(path)
	}
	return filepath.Ext(path)
}

// checkFile returns the findings of one file.
func checkFile(path string, raw []byte) []finding {
	var passages []passage
	var findings []finding
	switch fileType(path) {
	case ".go":
		passages, findings = goPassages(path, raw)
	case "rules.md":
		passages = lines(raw, rulesCell)
	case ".md", ".tpl":
		passages = lines(raw, func(line string) (string, bool) { return line, true })
	case ".txtar":
		head, _, _ := bytes.Cut(raw, []byte("\n-- "))
		passages = lines(head, func(line string) (string, bool) { return line, !strings.HasPrefix(line, "rules: ") })
	case ".py":
		passages, findings = pythonPassages(path, raw)
	case ".yaml", ".yml":
		passages, findings = yamlPassages(path, raw)
		passages = append(passages, lines(raw, after("#"))...)
	case ".sh", "Makefile":
		passages = append(lines(raw, after("#")), stringPassages(raw, shellQuoting())...)
	case ".toml", ".service", ".timer", ".env", ".in":
		passages = lines(raw, after("#"))
	case ".sql":
		passages = lines(raw, after("--"))
	case ".proto":
		passages = lines(raw, after("//"))
	case ".js", ".mjs", ".ts", ".tsx":
		passages = append(lines(raw, after("//")), stringPassages(raw, scriptQuoting())...)
	case ".html":
		passages = htmlPassages(raw)
	}
	list := rules()
	for _, p := range passages {
		for _, o := range offences(list, p.text) {
			line := p.line + strings.Count(p.text[:o.at], "\n")
			findings = append(findings, finding{path: path, line: line, word: o.word, hint: o.better})
		}
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return a.line - b.line })
	return findings
}

// goPassages returns the comments and messages of a Go file, and the findings in the names of its tests.
func goPassages(path string, raw []byte) ([]passage, []finding) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, raw, parser.ParseComments)
	if err != nil {
		return nil, []finding{{path: path, line: 1, word: "syntax", hint: err.Error()}}
	}
	var passages []passage
	var findings []finding
	for _, group := range file.Comments {
		for _, c := range group.List {
			if !strings.HasPrefix(c.Text, "//go:") && !strings.HasPrefix(c.Text, "//nolint") {
				passages = append(passages, passage{line: set.Position(c.Pos()).Line, text: c.Text})
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && message(text) {
				passages = append(passages, passage{line: set.Position(n.Pos()).Line, text: text})
			}
		case *ast.FuncDecl:
			if hint := nameOffence(n.Name.Name); hint != "" && strings.HasSuffix(path, "_test.go") && n.Recv == nil && isTest(n.Name.Name) {
				findings = append(findings, finding{path: path, line: set.Position(n.Pos()).Line, word: n.Name.Name, hint: hint})
			}
		}
		return true
	})
	return passages, findings
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Benchmark")
}

// lines returns the lines of a file as passages; the function pick returns the prose of a line, if there is any.
func lines(raw []byte, pick func(line string) (string, bool)) []passage {
	var out []passage
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		if text, ok := pick(line); ok {
			out = append(out, passage{line: n, text: text})
		}
	}
	return out
}

// after returns a pick function for comments that begin with mark. It picks a line that begins with mark, or the text
// that follows mark later in a line.
func after(mark string) func(line string) (string, bool) {
	return func(line string) (string, bool) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, mark) {
			return trimmed, true
		}
		_, comment, ok := strings.Cut(line, " "+mark+" ")
		return comment, ok
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "wording:", err)
		os.Exit(2)
	}
}
