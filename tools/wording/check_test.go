package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bad contains ten sentences that break the rules, each with a file of another kind.
var bad = []struct{ file, text string }{
	{"a.go", "package a\n\n// Load answers the row.\nfunc Load() {}\n"},
	{"b.go", "package b\n\n// check refuses whatever he sends.\nfunc check() {}\n"},
	{"c.go", "package c\n\nconst c = \"the caller is told that it failed\"\n"},
	{"d.go", "package d\n\nconst d = \"%q is no name of a variable\"\n"},
	{"e_test.go", "package e\n\nimport \"testing\"\n\nfunc TestWhatIsMissingIsNamed(t *testing.T) {}\n"},
	{"f_test.go", "package f\n\nimport \"testing\"\n\nfunc TestRolesAreToldToAuth(t *testing.T) {}\n"},
	{"g.sql", "-- whoever has the row keeps it\nSELECT 1;\n"},
	{"h.md", "The column has yet to be filled.\n"},
	{"i.py", "x = 1  # the server is asked once\n"},
	{"j.proto", "// Which of the keys is none.\nmessage J {}\n"},
}

// good contains sentences and data that look similar to those in bad and must pass.
var good = []struct{ file, text string }{
	{"a.go", "package a\n\n// Load returns the row, if there is no newer one; it is no longer cached. See answer.go and `answers`.\nfunc Load() string { return \"answer\" }\n"},
	{"b_test.go", "package b\n\nimport \"testing\"\n\nfunc TestStore_Load_missingRow(t *testing.T) {}\n"},
	{"c.go", "package c\n\nconst c = `SELECT asked, told FROM said`\n"},
}

func TestCheck_findsTenPlantedSentences(t *testing.T) {
	root := plant(t, bad)
	findings, err := check(root, empty(t))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range findings {
		found[f.path] = true
	}
	for _, b := range bad {
		if !found[b.file] {
			t.Errorf("%s was not found: %s", b.file, b.text)
		}
	}
	if len(found) != 10 {
		t.Errorf("found %d of 10 bad sentences", len(found))
	}
}

func TestCheck_passesPlainSentences(t *testing.T) {
	findings, err := check(plant(t, good), empty(t))
	if err != nil || len(findings) != 0 {
		t.Errorf("findings %v, error %v; want none", findings, err)
	}
}

func TestCheck_honoursAllowedWords(t *testing.T) {
	root := plant(t, bad[:1])
	allow := filepath.Join(t.TempDir(), "allow.txt")
	write(t, allow, "a.go: answers # a test\n")
	findings, err := check(root, allow)
	if err != nil || len(findings) != 0 {
		t.Errorf("findings %v, error %v; want none", findings, err)
	}
}

func TestCheck_reportsTheLine(t *testing.T) {
	findings, err := check(plant(t, bad[:1]), empty(t))
	if err != nil || len(findings) != 1 {
		t.Fatalf("findings %v, error %v; want one", findings, err)
	}
	if got := findings[0].String(); !strings.HasPrefix(got, `a.go:3: "answers"`) {
		t.Errorf("finding %q; want line 3 and the word", got)
	}
}

func plant(t *testing.T, files []struct{ file, text string }) string {
	t.Helper()
	root := t.TempDir()
	if out, err := exec.Command("git", "-C", root, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	for _, f := range files {
		write(t, filepath.Join(root, f.file), f.text)
	}
	return root
}

func empty(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "allow.txt")
	write(t, path, "")
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
