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

var (
	// paged matches the end of a statement that returns one page of rows. The ORDER BY clause precedes it.
	paged = regexp.MustCompile(`LIMIT (\$\d+|" \+ q\.arg\(limit\) \+ ") OFFSET`)
	// ordered matches the last ORDER BY clause in a text. The clause may be in a constant.
	ordered = regexp.MustCompile("(?s)^.*ORDER BY ([^`\"]+)")
	// shared matches columns in which several rows of a list may have the same value.
	shared = regexp.MustCompile(`(^|\.|_)(at|name|username|display_name|priority|state|created|role|kind)$`)
)

// unordered returns the ORDER BY clauses of paged statements that do not define the order of all rows. A
// client that reads all pages could then miss a row.
func unordered(source string) []string {
	var out []string
	for _, at := range paged.FindAllStringIndex(source, -1) {
		order := ordered.FindStringSubmatch(source[:at[0]])
		if order == nil {
			out = append(out, "none")
			continue
		}
		terms := strings.Split(order[1], ",")
		last, _, _ := strings.Cut(strings.TrimSpace(terms[len(terms)-1]), " ")
		if shared.MatchString(last) {
			out = append(out, strings.TrimSpace(order[1]))
		}
	}
	return out
}

func TestPagedStatements_haveUniqueOrder(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, top := range []string{"services", "platform"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root(t), top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			seen += len(paged.FindAllString(string(raw), -1))
			require.Empty(t, unordered(string(raw)), path)
			return nil
		}))
	}
	require.Greater(t, seen, 40)
}

func TestUnordered_detectsTies(t *testing.T) {
	t.Parallel()
	require.Empty(t, unordered("`SELECT x FROM t ORDER BY t.created_at DESC, t.id DESC LIMIT $1 OFFSET $2`"))
	require.Empty(t, unordered("const c = ` ORDER BY task, number`; all(c+` LIMIT $1 OFFSET $2`)"))
	for _, order := range []string{"created_at DESC", "f.name", "at", "id, a.username DESC", "priority DESC, created_at"} {
		require.Equal(t, []string{order}, unordered("`SELECT x FROM t ORDER BY "+order+" LIMIT $1 OFFSET $2`"))
	}
	require.Equal(t, []string{"none"}, unordered("`SELECT x FROM t LIMIT $1 OFFSET $2`"))
}
