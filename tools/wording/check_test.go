package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bad contains sentences and names that break the rules, each in its own file.
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
	{"k.py", "\"\"\"What the server was told.\"\"\"\n"},
	{"l.py", "def f(\n    x: int,\n) -> None:  # noqa\n    \"\"\"Return x.\n\n    The server answers with x.\n    \"\"\"\n"},
	{"test_m.py", "def test_the_row_is_kept() -> None:\n    pass\n"},
	{"n.py", "def f() -> None:\n    raise ValueError(\"whoever asks is told the answer\")\n"},
	{"o.js", "const o = 'whoever asks is told the answer';\n"},
	{"p.html", "<p class=\"lead\">Whoever asks is told\nthe result.</p>\n"},
	{"q.sh", "echo \"$x: whoever asks is told the answer\" >&2\n"},
	{"r.yaml", "areas:\n  - {name: r, description: Whoever asks is told the answer.}\n"},
	{"Makefile", "s:\n\t@echo \"whoever asks is told the answer\"\n"},
	{"t.go", "package t\n\nconst t = \"[t] whoever asks is told the answer\"\n"},
	{"u.go", "package u\n\nconst u = \"{u} whoever asks is told the answer\"\n"},
	{"helm/x/templates/v.yaml", "{{ if .x }}\n# Whoever asks is told the answer.\n{{ end }}\n"},
	{"docs/rules.md", "| v.w | A row. | nothing to check: tells of rows |\n"},
}

// good contains sentences and data that look similar to those in bad and must pass.
var good = []struct{ file, text string }{
	{"a.go", "package a\n\n// Load returns the row, if there is no newer one; it is no longer cached. See answer.go and `answers`.\nfunc Load() string { return \"answer\" }\n"},
	{"b_test.go", "package b\n\nimport \"testing\"\n\nfunc TestStore_Load_missingRow(t *testing.T) {}\n"},
	{"c.go", "package c\n\nconst c = `SELECT asked, told FROM said`\n"},
	{"d.py", "TEXT = \"\"\"he said\n# he said\n\"\"\"\nTOLD = {\"a\": '''he said'''}\n"},
	{"test_e.py", "class C:\n    '''Return a row if it is None.'''\n\n    def test_row_is_kept(self) -> None:\n        \"\"\"Keep the row.\"\"\"\n"},
	{"f.py", "F = {\"asked\": 'told'}  # 'a'\nG = \"\"\"he\"\"\" + f\"{answer} is the value\"\n"},
	{"g.js", "const g = at(\"asked\"); // don't\nconst told = `a ${told}`;\n"},
	{"h.html", "<p id=\"asked\" class=\"he said\">{{.Answer}} {{if told}}</p>\n<script>told = 1</script>\n"},
	{"i.sh", "told=\"$answer $told\" # don't\nasked '$1' \\\" he\n"},
	{"j.yaml", "answer: {told: asked}\nsaid: [a b, answer]\n"},
	{"k.go", "package k\n\nvar k = []string{`{\"he said\": %q}`, `[{\"a\": \"he said\"}]`, `[^ ] he`, `[a-z ]+ he`, `[1, 2]`}\n"},
	{"docs/rules.md", "| l.m | Whoever asks \\| is told. | `test.TestRow` |\n"},
}

func TestCheck_findsEachBadSentence(t *testing.T) {
	root := plant(t, bad)
	findings, err := check(t.Context(), root, empty(t))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range findings {
		found[f.path] = true
	}
	for _, b := range bad {
		if !found[b.file] {
			t.Errorf("no finding in %s: %s", b.file, b.text)
		}
	}
	if len(found) != len(bad) {
		t.Errorf("findings in %d files; want %d", len(found), len(bad))
	}
}

func TestCheck_passesPlainSentences(t *testing.T) {
	findings, err := check(t.Context(), plant(t, good), empty(t))
	if err != nil || len(findings) != 0 {
		t.Errorf("findings %v, error %v; want none", findings, err)
	}
}

func TestCheck_honoursAllowedWords(t *testing.T) {
	root := plant(t, bad[:1])
	allow := filepath.Join(t.TempDir(), "allow.txt")
	write(t, allow, "a.go: answers # a test\n")
	findings, err := check(t.Context(), root, allow)
	if err != nil || len(findings) != 0 {
		t.Errorf("findings %v, error %v; want none", findings, err)
	}
}

func TestCheck_reportsTheLine(t *testing.T) {
	findings, err := check(t.Context(), plant(t, bad[:1]), empty(t))
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
		path := filepath.Join(root, f.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, f.text)
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

func TestCheck_reportsTheLineInADocstring(t *testing.T) {
	findings, err := check(t.Context(), plant(t, bad[11:12]), empty(t))
	if err != nil || len(findings) != 1 {
		t.Fatalf("findings %v, error %v; want one", findings, err)
	}
	if got := findings[0].String(); !strings.HasPrefix(got, `l.py:6: "answers"`) {
		t.Errorf("finding %q; want line 6 and the word", got)
	}
}

func TestCheck_honoursWordsAllowedInAFolder(t *testing.T) {
	root := t.TempDir()
	if out, err := exec.Command("git", "-C", root, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(root, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "a", "b", "c.py"), "# the answer\n")
	write(t, filepath.Join(root, "ab.py"), "# the answer\n")
	allow := filepath.Join(t.TempDir(), "allow.txt")
	write(t, allow, "a: answer # a test\n")
	findings, err := check(t.Context(), root, allow)
	if err != nil || len(findings) != 1 || findings[0].path != "ab.py" {
		t.Errorf("findings %v, error %v; want one, in ab.py", findings, err)
	}
}

func TestSample_drawsCommentsAndDocstringsOfPython(t *testing.T) {
	source := "\"\"\"Read rows.\n\n    Write them.\n\"\"\"\n\n# A comment.\nTEXT = \"\"\"\n# not a comment\n\"\"\"\n\n\n" +
		"class C:\n    # A comment before the docstring.\n    r'''Return a row.'''\n"
	comments, messages, err := sample(t.Context(), plant(t, []struct{ file, text string }{{"a.py", source}}), 1, 10, 10)
	if err != nil || len(messages) != 0 {
		t.Fatalf("messages %v, error %v; want none", messages, err)
	}
	var got []string
	for _, d := range comments {
		got = append(got, d.String())
	}
	slices.Sort(got)
	want := []string{
		"a.py:1\n    Read rows.\n    \n    Write them.", "a.py:13\n    A comment before the docstring.",
		"a.py:14\n    Return a row.", "a.py:6\n    A comment.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("texts %q; want %q", got, want)
	}
}
