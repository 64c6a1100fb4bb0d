package layout

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
	fileMax = 400 // counts for tests too
	mainMax = 45
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

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		require.LessOrEqual(t, s.lines, fileMax, s.path)
	}
}

func TestInit_notDeclared(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			require.False(t, ok && f.Name.Name == "init" && f.Recv == nil, "init in %s", s.path)
		}
	}
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
