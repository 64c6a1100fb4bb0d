package layout

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// value describes an expression: the texts that it can have, and the index of the parameter that it refers
// to, or -1 if it is not a parameter.
type value struct {
	texts []string
	param int
}

// resolve returns the value of an expression inside the function fn. fn is nil for a package-level
// declaration.
func (c *errorCodes) resolve(f *codeFile, fn *ast.FuncDecl, e ast.Expr) value {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.resolve(f, fn, e.X)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil {
			return value{texts: []string{text}, param: -1}
		}
	case *ast.Ident:
		if i := parameter(fn, e.Name); i >= 0 {
			return value{texts: c.assigned(f, fn, e.Name), param: i}
		}
		if texts := c.assigned(f, fn, e.Name); len(texts) > 0 {
			return value{texts: texts, param: -1}
		}
		return c.constant(f.pkg + "." + e.Name)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && f.imports[x.Name] != "" {
			return c.constant(f.imports[x.Name] + "." + e.Sel.Name)
		}
	}
	return value{param: -1}
}

func (c *errorCodes) constant(name string) value {
	if k, ok := c.consts[name]; ok {
		return c.resolve(k.file, nil, k.expr)
	}
	return value{param: -1}
}

// assigned returns the texts that a function assigns to the variable with the given name.
func (c *errorCodes) assigned(f *codeFile, fn *ast.FuncDecl, name string) []string {
	if fn == nil {
		return nil
	}
	var texts []string
	ast.Inspect(fn, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != len(assign.Rhs) {
			return true
		}
		for i, left := range assign.Lhs {
			from, same := assign.Rhs[i].(*ast.Ident)
			if id, ok := left.(*ast.Ident); ok && id.Name == name && (!same || from.Name != name) {
				texts = append(texts, c.resolve(f, fn, assign.Rhs[i]).texts...)
			}
		}
		return true
	})
	return texts
}

// callee returns the name of the called function: the package and the name, without the type of a method.
// The methods of fault.Error are recognized by their names.
func (f *codeFile) callee(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return f.pkg + "." + fun.Name
	case *ast.SelectorExpr:
		if fun.Sel.Name == "WithCode" || fun.Sel.Name == "WithOAuth" {
			return faultPackage + ".method." + fun.Sel.Name
		}
		if x, ok := fun.X.(*ast.Ident); ok && f.imports[x.Name] != "" {
			return f.imports[x.Name] + "." + fun.Sel.Name
		}
		return f.pkg + ".method." + fun.Sel.Name
	}
	return ""
}

// declared returns the name of a declared function in the same form as codeFile.callee.
func (f *codeFile) declared(fn *ast.FuncDecl) string {
	if fn.Recv != nil {
		return f.pkg + ".method." + fn.Name.Name
	}
	return f.pkg + "." + fn.Name.Name
}

// names returns the names in a list of parameters or results.
func names(list *ast.FieldList) (all []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			all = append(all, name.Name)
		}
	}
	return all
}

func parameter(fn *ast.FuncDecl, name string) int {
	if fn == nil {
		return -1
	}
	return slices.Index(names(fn.Type.Params), name)
}

// codeResult returns the index of the string result with the name code, or -1 if no result has that name.
func codeResult(fn *ast.FuncDecl) int {
	if fn == nil || fn.Type.Results == nil {
		return -1
	}
	for _, field := range fn.Type.Results.List {
		if slices.ContainsFunc(field.Names, func(n *ast.Ident) bool { return n.Name == setCode }) && lastName(field.Type) == "string" {
			return slices.Index(names(fn.Type.Results), setCode)
		}
	}
	return -1
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func isOAuthField(name string) bool { return name == setOAuth || name == "word" }

// isPassedOn reports whether an expression is the code of an existing error: a field with a code, or an
// entry of received metadata.
func isPassedOn(e ast.Expr) bool {
	if _, ok := e.(*ast.IndexExpr); ok {
		return true
	}
	field, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Code", "Gate", setOAuth}, field.Sel.Name)
}

// readConstants adds the constants whose names begin with Code or Gate, even if they are not used, and the
// OAuth error codes of packages with a wrapper of WithOAuth.
func (c *errorCodes) readConstants() {
	for name, value := range c.consts {
		dot := strings.LastIndex(name, ".")
		set := ""
		switch pkg, local := name[:dot], name[dot+1:]; {
		case strings.HasPrefix(local, "Code"), strings.HasPrefix(local, "Gate"):
			set = setCode
		case strings.HasPrefix(local, "word") && c.wraps(pkg, setOAuth):
			set = setOAuth
		default:
			continue
		}
		for _, code := range c.resolve(value.file, nil, value.expr).texts {
			c.found(set, code, nil)
		}
	}
}

// wraps reports whether a package has a wrapper for the set.
func (c *errorCodes) wraps(pkg, set string) bool {
	for name, all := range c.wrappers {
		for w := range all {
			if w.set == set && strings.HasPrefix(name, pkg+".") {
				return true
			}
		}
	}
	return false
}
