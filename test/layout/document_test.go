package layout

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const decisions = "docs/contributing/decisions"

// decisionMax is the maximum number of lines of a decision record. A record must be short enough to read at a glance.
const decisionMax = 30

// link matches the target of a link in Markdown.
var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// deadLinks returns the relative links of a page whose targets do not exist. The parameter folder is the folder of
// the page.
func deadLinks(folder, page string) []string {
	var out []string
	for _, m := range link.FindAllStringSubmatch(page, -1) {
		target, _, _ := strings.Cut(m[1], "#")
		if target == "" || strings.Contains(target, ":") {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, target)); err != nil {
			out = append(out, m[1])
		}
	}
	return out
}

func TestDocumentsLinkExistingFiles(t *testing.T) {
	t.Parallel()
	top := root(t)
	pages, err := filepath.Glob(filepath.Join(top, "*.md"))
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(filepath.Join(top, "docs"), func(p string, _ fs.DirEntry, err error) error {
		if filepath.Ext(p) == ".md" {
			pages = append(pages, p)
		}
		return err
	}))
	require.Greater(t, len(pages), 10)
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Empty(t, deadLinks(filepath.Dir(page), string(raw)), page)
	}
}

func TestDeadLinks(t *testing.T) {
	t.Parallel()
	page := "[a](layout.md#x), [b](#x), [c](https://example.com/x.md), [d](removed.md), [e](../removed/x.md#y)"
	require.Equal(t, []string{"removed.md", "../removed/x.md#y"}, deadLinks(filepath.Join(root(t), "docs/contributing"), page))
}

// TestDecisionsShortAndListed requires that each decision record has a number, the same three parts and a line in the
// index.
func TestDecisionsShortAndListed(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(root(t), decisions)
	index, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	records, err := filepath.Glob(filepath.Join(folder, "[0-9]*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, records)
	for _, record := range records {
		raw, err := os.ReadFile(record)
		require.NoError(t, err)
		name := filepath.Base(record)
		number := strings.TrimLeft(name[:4], "0")
		require.LessOrEqual(t, strings.Count(string(raw), "\n"), decisionMax, name)
		require.Regexp(t, `(?s)^# `+number+`\. [^\n]+\n\n## Context\n.*\n## Decision\n.*\n## Consequences\n`, string(raw), name)
		title, _, _ := strings.Cut(strings.TrimPrefix(string(raw), "# "+number+". "), "\n")
		require.Contains(t, string(index), "- ["+number+"]("+name+") "+title+"\n", name)
	}
}
