package layout

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limits for this tree, in lines.
const (
	fileMedian, fileP90, fileMax = 110, 250, 400 // fileMax also applies to tests
	functionP90, functionMax     = 30, 70
	mainMax                      = 45
	// packageMax is the maximum number of files in a package, not counting tests, so that its file names can be
	// read at a glance.
	packageMax = 10
	// minTestRatio is the minimum ratio of test lines to product lines.
	minTestRatio = 1.0
)

// source is a hand-written Go file.
type source struct {
	path  string
	lines int
	ast   *ast.File
	fset  *token.FileSet
}

// parsed parses every hand-written Go file of the module, once for all tests. Tests must not change the result.
var parsed = sync.OnceValues(func() ([]source, error) {
	var all []source
	err := filepath.WalkDir(top(), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{"node_modules", "gen", ".git", "testdata", ".cache", ".signalbox", "bin"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		raw, err := os.ReadFile(p)
		if err != nil || bytes.Contains(raw[:min(len(raw), 600)], []byte("Code generated")) {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, raw, parser.ParseComments)
		rel, _ := filepath.Rel(top(), p)
		all = append(all, source{path: rel, lines: bytes.Count(raw, []byte("\n")), ast: file, fset: fset})
		return err
	})
	return all, err
})

func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	require.NoError(t, err)
	return all
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	var out []string
	for _, i := range parsed.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		require.NoError(t, err)
		out = append(out, name)
	}
	return out
}

func quantile(sorted []int, q float64) int { return sorted[int(q*float64(len(sorted)-1))] }

func TestSizes(t *testing.T) {
	t.Parallel()
	var files, functions []int
	product, test := 0, 0
	for _, s := range sources(t) {
		require.LessOrEqual(t, s.lines, fileMax, s.path)
		if strings.HasSuffix(s.path, "_test.go") {
			test += s.lines
			continue
		}
		product += s.lines
		files = append(files, s.lines)
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			functions = append(functions, n)
			require.LessOrEqual(t, n, functionMax, "the function %s in %s is too long", f.Name.Name, s.path)
			require.False(t, f.Name.Name == "init" && f.Recv == nil, "%s must not declare a function init", s.path)
		}
	}
	slices.Sort(files)
	slices.Sort(functions)
	t.Logf("files %d: median %d, p90 %d; functions %d: p90 %d; product %d, test %d", len(files), quantile(files, .5),
		quantile(files, .9), len(functions), quantile(functions, .9), product, test)
	require.LessOrEqual(t, quantile(files, .5), fileMedian)
	require.LessOrEqual(t, quantile(files, .9), fileP90)
	require.LessOrEqual(t, quantile(functions, .9), functionP90)
	require.GreaterOrEqual(t, float64(test), minTestRatio*float64(product), "the ratio of test lines to product lines is too small")
}

// crowded returns the packages with more than packageMax product files, and their number of files. There is
// no minimum: a program or a small package with a single purpose may consist of one file.
func crowded(all []source) map[string]int {
	files := map[string]int{}
	for _, s := range all {
		if !strings.HasSuffix(s.path, "_test.go") {
			files[filepath.Dir(s.path)]++
		}
	}
	maps.DeleteFunc(files, func(_ string, n int) bool { return n <= packageMax })
	return files
}

func TestPackages_notCrowded(t *testing.T) {
	t.Parallel()
	require.Empty(t, crowded(sources(t)), "no package may have more than %d files", packageMax)
}

func TestCrowded_detectsOneFileTooMany(t *testing.T) {
	t.Parallel()
	var all []source
	for i := range packageMax {
		all = append(all, source{path: fmt.Sprintf("a/file%d.go", i)}, source{path: fmt.Sprintf("a/file%d_test.go", i)}, source{path: fmt.Sprintf("a/b/file%d.go", i)})
	}
	require.Empty(t, crowded(all), "tests and subfolders must not count")
	require.Equal(t, map[string]int{"a": packageMax + 1}, crowded(append(all, source{path: "a/more.go"})))
}

func TestPackages_haveComments(t *testing.T) {
	t.Parallel()
	commented := map[string]bool{}
	for _, s := range sources(t) {
		dir := filepath.Dir(s.path)
		if !strings.HasSuffix(s.path, "_test.go") || strings.HasPrefix(s.path, "test/") {
			commented[dir] = commented[dir] || s.ast.Doc != nil
		}
	}
	for dir, ok := range commented {
		require.True(t, ok, "package %s has no comment", dir)
	}
}
