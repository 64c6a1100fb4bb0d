package layout

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const errorsPage = "docs/reference/errors.md"

var (
	// row matches a line of a table: a code, its statuses, and two columns of text.
	row = regexp.MustCompile("^\\| `([^`]+)` \\| ([0-9, ]+) \\| [^|]+ \\| [^|]+ \\|$")
	// reasonRow matches a line of the table of revision reasons: a code, and two columns of text.
	reasonRow = regexp.MustCompile("^\\| `([^`]+)` \\| [^|]+ \\| [^|]+ \\|$")
	// endReason matches the declaration of an end reason of a job.
	endReason = regexp.MustCompile(`(?m)^\tReason\w+ += "([a-z_]+)"$`)
	// goldenCode and goldenWord match an error code and an OAuth error code in an expected response.
	goldenCode = regexp.MustCompile(`"code": ?"([a-z][a-z0-9_]*)"`)
	goldenWord = regexp.MustCompile(`"error": ?"([a-z][a-z0-9_]*)"`)
)

// documented is a table of the page: its codes with their statuses.
type documented struct {
	heading string
	codes   []string
	status  map[string][]int
}

// readErrorsPage returns the tables of the page.
func readErrorsPage(t *testing.T) (tables []documented) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root(t), errorsPage))
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			tables = append(tables, documented{heading: heading, status: map[string][]int{}})
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		require.NotEmpty(t, tables, "%s: a table must have a heading", errorsPage)
		table := &tables[len(tables)-1]
		if set := table.setOf(); set == setReason || set == setEndReason {
			cells := reasonRow.FindStringSubmatch(line)
			require.NotNil(t, cells, "%s: this row must have three columns: %s", errorsPage, line)
			table.codes = append(table.codes, cells[1])
			continue
		}
		cells := row.FindStringSubmatch(line)
		require.NotNil(t, cells, "%s: this row must have four columns: %s", errorsPage, line)
		table.codes = append(table.codes, cells[1])
		for word := range strings.SplitSeq(cells[2], ", ") {
			status, err := strconv.Atoi(word)
			require.NoError(t, err, line)
			table.status[cells[1]] = append(table.status[cells[1]], status)
		}
	}
	return tables
}

// setOf returns the set of codes that a table lists.
func (d documented) setOf() string {
	switch {
	case strings.Contains(d.heading, setOAuth):
		return setOAuth
	case strings.HasPrefix(d.heading, setReason):
		return setReason
	case strings.HasPrefix(d.heading, setEndReason):
		return setEndReason
	default:
		return setCode
	}
}

// documentedCodes returns the statuses of each code of a set, from all tables.
func documentedCodes(t *testing.T, tables []documented, set string) map[string][]int {
	t.Helper()
	all := map[string][]int{}
	for _, table := range tables {
		require.True(t, slices.IsSorted(table.codes), "%s: sort the codes under %s", errorsPage, table.heading)
		if table.setOf() != set {
			continue
		}
		for _, code := range table.codes {
			require.NotContains(t, all, code, "%s must list each code only once", errorsPage)
			all[code] = table.status[code]
		}
	}
	return all
}

func TestErrorCodesAreDocumented(t *testing.T) {
	t.Parallel()
	source, tables := readErrorCodes(t), readErrorsPage(t)
	require.Empty(t, source.unknown, "this test cannot find the values of these codes; use a constant or a parameter")
	for set, codes := range source.statuses {
		page := documentedCodes(t, tables, set)
		require.ElementsMatch(t, slices.Sorted(maps.Keys(codes)), slices.Sorted(maps.Keys(page)),
			"listA contains the %s values in the source, listB those in %s", set, errorsPage)
		for code, statuses := range codes {
			for status := range statuses {
				require.Contains(t, page[code], status, "%s must list every status of %s", errorsPage, code)
			}
		}
	}
}

func TestErrorCodesOfTheGoldenFilesAreDocumented(t *testing.T) {
	t.Parallel()
	tables := readErrorsPage(t)
	codes, words, reasons := documentedCodes(t, tables, setCode), documentedCodes(t, tables, setOAuth), documentedCodes(t, tables, setReason)
	seen := 0
	err := filepath.WalkDir(filepath.Join(root(t), "test/contract/golden"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(p) != ".txtar" {
			return err
		}
		raw, err := os.ReadFile(p)
		for line := range strings.Lines(string(raw)) {
			listed := codes
			if strings.Contains(line, `"phase"`) {
				listed = reasons // the code in a revision's reason
			}
			for _, m := range goldenCode.FindAllStringSubmatch(line, -1) {
				seen++
				require.Contains(t, listed, m[1], p)
			}
			if m := goldenWord.FindStringSubmatch(line); m != nil && strings.Contains(line, `"detail"`) {
				require.Contains(t, words, m[1], p)
			}
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, seen, 100)
}

// TestErrorCodesAreFoundBehindWrappers checks that the search recognizes wrappers of fault.New by what they do, not by
// their names.
func TestErrorCodesAreFoundBehindWrappers(t *testing.T) {
	t.Parallel()
	found := readErrorCodes(t)
	for _, name := range []string{
		module + "/services/jobs/internal/admission.Refuse",
		module + "/services/jobs/internal/admission.refuseAs",
		module + "/services/registry/internal/solution.refuse",
		module + "/services/ingest/internal/artifact.refused",
		module + "/platform/pg.unavailable",
	} {
		require.Contains(t, found.wrappers, name)
	}
	for _, code := range []string{"quota", "image_registry", "not_uploaded", "database_busy", "headers_too_large"} {
		require.Contains(t, found.statuses[setCode], code)
	}
}

func TestEndReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root(t), "services/jobs/internal/job/reason.go"))
	require.NoError(t, err)
	var declared []string
	for _, m := range endReason.FindAllStringSubmatch(string(raw), -1) {
		declared = append(declared, m[1])
	}
	require.NotEmpty(t, declared)
	page := documentedCodes(t, readErrorsPage(t), setEndReason)
	require.ElementsMatch(t, declared, slices.Collect(maps.Keys(page)), "listA contains the end reasons in the source, listB those in %s", errorsPage)
}
