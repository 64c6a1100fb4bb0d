package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module is the import path of the root.
const module = "github.com/signalbox-dev/signalbox/"

// source is the parsed Go code without tests.
type source struct {
	set   *token.FileSet
	files []file
	// consts contains the constants, by the folder of the package and the constant's name.
	consts map[string]map[string]constant
}

type file struct {
	path    string
	syntax  *ast.File
	imports map[string]string // folder of each imported package of this module, by its name in the file
}

// constant is the expression of a constant and the file that declares it.
type constant struct {
	in   *file
	expr ast.Expr
}

// readSource parses the product's code below root, without tests and test data.
func readSource(root string) (*source, error) {
	s := &source{set: token.NewFileSet(), consts: map[string]map[string]constant{}}
	for _, dir := range []string{"agent", "cmd", "gateway", "internal", "platform", "services"} {
		dir = filepath.Join(root, dir)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
				return err
			}
			return s.parse(root, name)
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range s.files {
		s.declare(&s.files[i])
	}
	return s, nil
}

func (s *source) parse(root, name string) error {
	syntax, err := parser.ParseFile(s.set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return err
	}
	f := file{path: filepath.ToSlash(rel), syntax: syntax, imports: map[string]string{}}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		folder, ours := strings.CutPrefix(imported, module)
		if err != nil || !ours {
			continue
		}
		name := path.Base(folder)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		f.imports[name] = folder
	}
	s.files = append(s.files, f)
	return nil
}

// declare adds the package constants of a file.
func (s *source) declare(f *file) {
	dir := path.Dir(f.path)
	if s.consts[dir] == nil {
		s.consts[dir] = map[string]constant{}
	}
	for _, decl := range f.syntax.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i, name := range v.Names {
					s.consts[dir][name.Name] = constant{in: f, expr: v.Values[i]}
				}
			}
		}
	}
}

// statements returns the statements of all files, in order.
func (s *source) statements() []statement {
	var found []statement
	for i := range s.files {
		w := walker{source: s, file: &s.files[i], whole: map[ast.Expr]bool{}}
		ast.Inspect(w.file.syntax, w.visit)
		found = append(found, w.found...)
	}
	return found
}

// walker finds the statements of one file.
type walker struct {
	*source

	file  *file
	whole map[ast.Expr]bool // arguments of calls that run statements
	found []statement
}

func (w *walker) visit(n ast.Node) bool {
	if call, ok := n.(*ast.CallExpr); ok && runs(call) {
		for _, arg := range call.Args {
			w.whole[arg] = true
		}
	}
	expr, ok := n.(ast.Expr)
	if !ok || !isText(expr) {
		return true
	}
	pieces, unknown := w.flatten(w.file, expr)
	if s, ok := begin(pieces, w.whole[expr]); ok {
		s.path, s.line = w.file.path, w.set.Position(expr.Pos()).Line
		w.found = append(w.found, s)
	}
	for _, e := range unknown {
		ast.Inspect(e, w.visit)
	}
	return false
}

// runs reports whether the call has the name of a pgx method that runs a statement.
func runs(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Exec", "Query", "QueryRow", "Queue"}, f.Sel.Name)
}

// isText reports whether the expression is a string literal, an addition or a call of Sprintf.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return e.Op == token.ADD
	case *ast.CallExpr:
		return isSprintf(e)
	}
	return false
}

func isSprintf(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Sprintf" && len(call.Args) > 0
}

// verb matches a verb of a format string.
var verb = regexp.MustCompile(`%(?:\[\d+\])?[a-z]`)

// flatten returns the known pieces of a string expression, and the operands whose values are not known.
func (w *walker) flatten(in *file, e ast.Expr) (pieces []string, unknown []ast.Expr) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return []string{text}, nil
		}
	case *ast.BinaryExpr:
		left, unknown := w.flatten(in, e.X)
		right, more := w.flatten(in, e.Y)
		last := len(left) - 1
		pieces = append(append(pieces, left[:last]...), left[last]+right[0])
		return append(pieces, right[1:]...), append(unknown, more...)
	case *ast.ParenExpr:
		return w.flatten(in, e.X)
	case *ast.CallExpr:
		if isSprintf(e) {
			for _, piece := range w.format(in, e.Args[0]) {
				pieces = append(pieces, verb.Split(piece, -1)...)
			}
			return pieces, e.Args[1:]
		}
	case *ast.Ident:
		if c, ok := w.consts[path.Dir(in.path)][e.Name]; ok {
			return w.value(c), nil
		}
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok {
			if c, ok := w.consts[in.imports[pkg.Name]][e.Sel.Name]; ok {
				return w.value(c), nil
			}
		}
	}
	return []string{"", ""}, []ast.Expr{e}
}

// format returns the known pieces of the format string of a call of Sprintf.
func (w *walker) format(in *file, e ast.Expr) []string {
	pieces, _ := w.flatten(in, e)
	return pieces
}

// value returns the pieces of a constant.
func (w *walker) value(c constant) []string {
	pieces, _ := w.flatten(c.in, c.expr)
	return pieces
}
