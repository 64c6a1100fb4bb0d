package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mains returns the number of lines of each program, by its folder. For an installed program (a package in
// a folder cmd, which `make build` builds) all files count, so that moving code out of main.go does not lower the
// number. For a tool only the file with func main counts.
func mains(all []source) map[string]int {
	main, whole := map[string]int{}, map[string]int{}
	for _, s := range all {
		if strings.HasSuffix(s.path, "_test.go") || s.ast.Name.Name != "main" {
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(s.path))
		whole[dir] += s.lines
		if declaresMain(s.ast) {
			main[dir] = s.lines
		}
	}
	for dir := range main {
		if path.Base(path.Dir(dir)) == "cmd" {
			main[dir] = whole[dir]
		}
	}
	return main
}

func declaresMain(f *ast.File) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && fn.Recv == nil && fn.Name.Name == "main"
	})
}

func TestMains_areShort(t *testing.T) {
	t.Parallel()
	measured := mains(sources(t))
	long := maps.Clone(measured)
	maps.DeleteFunc(long, func(_ string, lines int) bool { return lines <= mainMax })
	require.Empty(t, long, "no program may have more than %d lines", mainMax)
	programs := slices.Collect(maps.Keys(binaries()))
	programs = append(programs, "cmd/signalbox", "cmd/signalboxd", "cmd/signalbox-setup")
	for _, p := range list(t, "") {
		if p.Name == "main" {
			programs = append(programs, strings.TrimPrefix(p.ImportPath, module+"/"))
		}
	}
	for _, dir := range programs {
		require.Contains(t, measured, dir, "every program must be measured")
	}
}

func TestMains_countsWholeProgram(t *testing.T) {
	t.Parallel()
	file := func(name string, lines int, text string) source {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, name, text, 0)
		require.NoError(t, err)
		return source{path: name, lines: lines, ast: parsed, fset: fset}
	}
	const program, beside = "package main\nfunc main() {}\n", "package main\nfunc (t) main() {}\ntype t struct{}\n"
	require.Equal(t, map[string]int{"cmd/signalbox-x": 50, "services/a/cmd/ad": 45, "tools/x": 7}, mains([]source{
		file("cmd/signalbox-x/main.go", 30, program), file("cmd/signalbox-x/more.go", 20, beside), file("cmd/signalbox-x/main_test.go", 99, program),
		file("services/a/cmd/ad/start.go", 45, program),
		file("tools/x/x.go", 7, program), file("tools/x/more.go", 80, beside),
		file("services/a/a.go", 300, "package a\nfunc main() {}\n"),
	}))
}
