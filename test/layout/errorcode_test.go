package layout

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const faultPackage = module + "/platform/fault"

// The sets of words that an error response can contain.
const (
	setCode  = "code"  // the member code
	setOAuth = "OAuth" // the error code of an OAuth RFC
)

// wrapper is a function that passes one of its parameters on as an error code.
type wrapper struct {
	set  string
	code int // the index of the parameter
	// kind is the error's kind, empty if it is unknown. If it is a parameter, kindArg is its index, and -1 otherwise.
	kind    string
	kindArg int
}

// codeFile is a product file and the import paths behind its package names.
type codeFile struct {
	source

	pkg     string
	imports map[string]string
}

type constant struct {
	file *codeFile
	expr ast.Expr
}

// errorCodes holds the error codes of the source. Wrappers and constants are named by import path and name.
type errorCodes struct {
	files    []*codeFile
	consts   map[string]constant
	wrappers map[string]map[wrapper]bool
	// statuses has the HTTP statuses of each code of a set, as far as they are known.
	statuses map[string]map[string]map[int]bool
	// unknown lists the codes whose value cannot be read from the source.
	unknown map[string]bool
}

// readErrorCodes collects the codes of all programs that serve the API. It repeats until it finds no further wrapper.
func readErrorCodes(t *testing.T) *errorCodes {
	t.Helper()
	c := &errorCodes{
		consts:   map[string]constant{},
		statuses: map[string]map[string]map[int]bool{setCode: {}, setOAuth: {}},
		wrappers: map[string]map[wrapper]bool{
			faultPackage + ".New":                                     {{set: setCode, code: 1, kindArg: 0}: true},
			faultPackage + ".method.WithCode":                         {{set: setCode, kindArg: -1}: true},
			faultPackage + ".method.WithOAuth":                        {{set: setOAuth, kindArg: -1}: true},
			module + "/services/inference/internal/proxy.method.last": {{set: setCode, code: 3, kindArg: -1}: true}, // the last event of a stream
		},
	}
	for _, s := range sources(t) {
		if servesAPI(s.path) {
			c.add(s)
		}
	}
	for before := -1; before != c.size(); {
		before = c.size()
		c.unknown = map[string]bool{}
		for _, f := range c.files {
			for _, d := range f.ast.Decls {
				c.readDecl(f, d)
			}
		}
	}
	c.readConstants()
	return c
}

// servesAPI reports whether a file belongs to a program that serves the API.
func servesAPI(path string) bool {
	top, _, _ := strings.Cut(filepath.ToSlash(path), "/")
	return !strings.HasSuffix(path, "_test.go") && slices.Contains([]string{"cmd", "gateway", "internal", "platform", "services"}, top)
}

func (c *errorCodes) size() (n int) {
	for _, w := range c.wrappers {
		n += len(w)
	}
	return n
}

// add records a file and its constants.
func (c *errorCodes) add(s source) {
	f := &codeFile{source: s, pkg: module + "/" + filepath.ToSlash(filepath.Dir(s.path)), imports: map[string]string{}}
	for _, i := range s.ast.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		f.imports[name] = path
	}
	c.files = append(c.files, f)
	for _, d := range s.ast.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, spec := range decl.Specs {
			v := spec.(*ast.ValueSpec)
			for i, value := range v.Values {
				c.consts[f.pkg+"."+v.Names[i].Name] = constant{f, value}
			}
		}
	}
}

// readDecl adds the codes of one declaration and records its function if it is a wrapper.
func (c *errorCodes) readDecl(f *codeFile, d ast.Decl) {
	fn, _ := d.(*ast.FuncDecl)
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			c.readCall(f, fn, n)
		case *ast.CompositeLit:
			c.readLiteral(f, fn, n)
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if field, ok := left.(*ast.SelectorExpr); ok && isOAuthField(field.Sel.Name) && len(n.Rhs) == len(n.Lhs) {
					c.use(f, fn, setOAuth, n.Rhs[i], nil)
				}
			}
		case *ast.ReturnStmt:
			if i := codeResult(fn); i >= 0 && i < len(n.Results) {
				c.use(f, fn, setCode, n.Results[i], nil)
			}
		}
		return true
	})
}

// readCall adds the codes of a call of a wrapper.
func (c *errorCodes) readCall(f *codeFile, fn *ast.FuncDecl, call *ast.CallExpr) {
	for _, w := range slices.Collect(maps.Keys(c.wrappers[f.callee(call)])) {
		if w.code >= len(call.Args) {
			continue
		}
		switch {
		case w.kindArg >= 0:
			c.use(f, fn, w.set, call.Args[w.code], call.Args[w.kindArg])
		case w.kind != "":
			c.use(f, fn, w.set, call.Args[w.code], &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(w.kind)})
		default:
			c.use(f, fn, w.set, call.Args[w.code], nil)
		}
	}
}

// readLiteral adds the codes in a literal of fault.Error or of a type that is sent as an error.
func (c *errorCodes) readLiteral(f *codeFile, fn *ast.FuncDecl, literal *ast.CompositeLit) {
	fields := map[string]ast.Expr{}
	for _, e := range literal.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				fields[key.Name] = pair.Value
			}
		}
	}
	if code := fields["Code"]; code != nil && strings.HasSuffix(strings.ToLower(lastName(literal.Type)), "error") {
		c.use(f, fn, setCode, code, fields["Kind"])
	}
	for name, word := range fields {
		if isOAuthField(name) {
			c.use(f, fn, setOAuth, word, nil)
		}
	}
}

// use records that an expression is a code of an error of a kind, nil if the kind is unknown.
func (c *errorCodes) use(f *codeFile, fn *ast.FuncDecl, set string, code, kind ast.Expr) {
	v, k := c.resolve(f, fn, code), value{texts: []string{""}, param: -1}
	if kind != nil {
		k = c.resolve(f, fn, kind)
	}
	for _, text := range v.texts {
		c.found(set, text, k.texts)
	}
	switch {
	case v.param < 0 && len(v.texts) == 0 && !isPassedOn(code):
		c.unknown[f.path+": "+types.ExprString(code)] = true
	case v.param >= 0:
		name := f.declared(fn)
		if c.wrappers[name] == nil {
			c.wrappers[name] = map[wrapper]bool{}
		}
		for _, text := range k.texts {
			c.wrappers[name][wrapper{set: set, code: v.param, kind: text, kindArg: -1}] = true
		}
		if k.param >= 0 {
			c.wrappers[name][wrapper{set: set, code: v.param, kindArg: k.param}] = true
		}
	}
}

// found adds a code and the statuses of its kinds.
func (c *errorCodes) found(set, code string, kinds []string) {
	if code == "" {
		return
	}
	if c.statuses[set][code] == nil {
		c.statuses[set][code] = map[int]bool{}
	}
	for _, k := range kinds {
		if k != "" {
			c.statuses[set][code][fault.HTTPStatus(fault.Kind(k))] = true
		}
	}
}
