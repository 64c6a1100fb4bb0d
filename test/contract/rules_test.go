package contract

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/contract/exchange"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// rule is a row of the table in docs/rules.md.
type rule struct {
	id, sentence string
	coverage     []string
}

// nothing is the id of a sentence that contains no rule.
const nothing = "-"

// table parses the rows of docs/rules.md.
func table(t *testing.T, text string) []rule {
	t.Helper()
	var out []rule
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if isTableRule(line) {
			inside = true
			continue
		}
		if !inside || !strings.HasPrefix(line, "|") {
			continue
		}
		const bar = "\x00"
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, bar), "|"), "|")
		require.Len(t, cells, 3, line)
		r := rule{id: strings.TrimSpace(cells[0]), sentence: strings.ReplaceAll(strings.TrimSpace(cells[1]), bar, "|")}
		r.coverage = parseCoverage(strings.TrimSpace(cells[2]))
		out = append(out, r)
	}
	return out
}

// parseCoverage splits a cell into the goldens and tests that cover a rule. Names of goldens and tests are in
// backquotes. A phrase extends to the end of the cell.
func parseCoverage(cell string) []string {
	var out []string
	for cell != "" {
		if words := phrase.FindString(cell); words != "" {
			return append(out, cell)
		}
		one, rest, _ := strings.Cut(cell, ", ")
		out, cell = append(out, one), rest
	}
	return out
}

// phrase matches a phrase that a cell may contain instead of goldens and tests.
var phrase = regexp.MustCompile(`^(nothing to check|owed|pending): \S`)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", name))
	require.NoError(t, err)
	return string(raw)
}

// TestRulesTableListsEverySentence checks that the table contains every sentence of the specification, in
// the same order.
func TestRulesTableListsEverySentence(t *testing.T) {
	t.Parallel()
	want := sentences(readDoc(t, "specification.md"))
	require.Greater(t, len(want), 250)
	var got []string
	ids := map[string]bool{}
	for _, r := range table(t, readDoc(t, "rules.md")) {
		got = append(got, r.sentence)
		require.NotEmpty(t, r.coverage, r.sentence)
		if r.id == nothing {
			require.Len(t, r.coverage, 1)
			require.True(t, strings.HasPrefix(r.coverage[0], "nothing to check: "), r.sentence)
			continue
		}
		require.Regexp(t, `^[a-z0-9-]+\.[a-z0-9-]+$`, r.id)
		require.False(t, ids[r.id], "duplicate rule %s", r.id)
		require.NotContains(t, strings.Join(r.coverage, " "), "nothing to check", r.sentence)
		ids[r.id] = true
	}
	require.Equal(t, want, got)
}

// TestSpecificationMatchesOriginal compares docs/specification.md with the original, if the original exists
// next to the checkout.
func TestSpecificationMatchesOriginal(t *testing.T) {
	t.Parallel()
	original, err := os.ReadFile(filepath.Join(testenv.Root(t), "..", "shared", "spec", "interface-specification.md"))
	if os.IsNotExist(err) {
		original, err = []byte(readDoc(t, "specification.md")), nil // without the original there is nothing to compare
	}
	require.NoError(t, err)
	require.Equal(t, string(original), readDoc(t, "specification.md"))
}

// TestRuleCoverageExists checks that every golden and test in the table exists. If a golden lists a rule, the table
// must list the golden for that rule, and vice versa.
func TestRuleCoverageExists(t *testing.T) {
	t.Parallel()
	rules := table(t, readDoc(t, "rules.md"))
	named := map[string]bool{}
	var faults, pending []string
	for _, r := range rules {
		for _, h := range r.coverage {
			switch {
			case strings.HasPrefix(h, "pending: "):
				pending = append(pending, "rule "+r.id)
			case phrase.MatchString(h):
			default:
				named[r.id+" "+strings.Trim(h, "`")] = true
				if why := missing(t, r, strings.Trim(h, "`")); why != "" {
					faults = append(faults, r.id+": "+why)
				}
			}
		}
	}
	for _, g := range loadGoldens(t) {
		for _, id := range g.Rules {
			if !named[id+" golden/"+g.Name] {
				faults = append(faults, "golden/"+g.Name+" covers "+id+", but the table does not list this golden for the rule")
			}
		}
	}
	require.Empty(t, faults)
	list := slices.DeleteFunc(readLines(t, "testdata/owed.txt"), func(line string) bool { return !strings.HasPrefix(line, "rule ") })
	requireSameLines(t, pending, list, "rules that nothing covers yet")
}

// missing describes the problem with a golden or test that a rule lists. It returns "" if the golden
// or test exists and covers the rule.
func missing(t *testing.T, r rule, name string) string {
	t.Helper()
	if golden, ok := strings.CutPrefix(name, "golden/"); ok {
		raw, err := os.ReadFile(filepath.Join("golden", golden+".txtar"))
		if err != nil {
			return "missing " + name
		}
		g, err := exchange.Parse(golden, raw)
		require.NoError(t, err)
		if !slices.Contains(g.Rules, r.id) {
			return name + " does not name the rule"
		}
		return ""
	}
	if file, function, ok := strings.Cut(name, "::"); ok {
		raw, err := os.ReadFile(filepath.Join(testenv.Root(t), file))
		if err != nil || !regexp.MustCompile(`(?m)^(async )?def `+regexp.QuoteMeta(function)+`\(`).Match(raw) {
			return "missing " + name
		}
		return ""
	}
	i := strings.LastIndex(name, ".")
	if i < 0 || !hasTest(t, filepath.Join(testenv.Root(t), name[:i]), name[i+1:]) {
		return "missing " + name
	}
	return ""
}

// hasTest reports whether the package in dir has a test with this name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name && strings.HasPrefix(name, "Test") {
				return true
			}
		}
	}
	return false
}

func TestMissingCoverageIsDetected(t *testing.T) {
	t.Parallel()
	rows := table(t, "| rule | sentence | tested by |\n|---|---|---|\n| a.b | x \\| y | `golden/health/version`, `test/contract.TestX`, pending: area, and more |\n")
	require.Equal(t, []rule{{"a.b", "x | y", []string{"`golden/health/version`", "`test/contract.TestX`", "pending: area, and more"}}}, rows)
	for name, words := range map[string]string{
		"golden/nowhere/none":                                      "missing ",
		"golden/health/version":                                    "does not name the rule",
		"test/contract.TestNowhere":                                "missing ",
		"test/contract.hasTest":                                    "missing ",
		"test/nowhere.TestX":                                       "missing ",
		"sdk/python/tests/test_config.py::test_nothing":            "missing ",
		"sdk/python/tests/nowhere.py::test_load_reads_environment": "missing ",
	} {
		require.Contains(t, missing(t, rule{id: "no.such"}, name), words, name)
	}
	require.Empty(t, missing(t, rule{}, "test/contract.TestMissingCoverageIsDetected"))
	require.Empty(t, missing(t, rule{}, "sdk/python/tests/test_config.py::test_load_reads_environment"))
}
