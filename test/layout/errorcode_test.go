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

// These are the sets of codes in a response.
const (
	setCode      = "code"        // values of the member code
	setOAuth     = "OAuth"       // error codes of the OAuth RFCs
	setReason    = "Reasons"     // codes of the reasons why a revision is not ready
	setEndReason = "End reasons" // why a job or an attempt ended
)

// wrapper is a function that uses one of its parameters as an error code.
type wrapper struct {
	set  string
	code int // the index of the parameter
	// kind is the error's kind; empty if unknown. If the kind is a parameter, kindArg is its index, otherwise
	// -1.
	kind    string
	kindArg int
}

// codeFile is a source file of the product and the import path for each package name in it.
type codeFile struct {
	source

	pkg     string
	imports map[string]string
}

type constant struct {
	file *codeFile
	expr ast.Expr
}

// errorCodes contains the error codes in the source. Its keys for wrappers and constants consist of import
// path and name.
type errorCodes struct {
	files    []*codeFile
	consts   map[string]constant
	wrappers map[string]map[wrapper]bool
	// statuses contains the HTTP statuses of each code, as far as the source shows them. The first key is the
	// set of codes.
	statuses map[string]map[string]map[int]bool
	// unknown lists the codes whose value the source does not show.
	unknown map[string]bool
}

// readErrorCodes collects the error codes of all programs that serve the API. It repeats the search until
// it finds no more wrappers.
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

// readCall adds the codes in a call of a wrapper.
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

// readLiteral adds the codes in a composite literal of fault.Error or of another type that is sent as an
// error.
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

// use records an expression as the code of an error. The parameter kind is the expression of the error's kind, or nil
// if the kind is unknown.
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

// found adds a code with the statuses of its kinds.
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
