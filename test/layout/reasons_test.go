package layout

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	reasonRegistry = "services/registry/internal"
	reasonExecutor = "agent/executor"
	reasonWaiting  = "services/jobs/internal/assignment"
)

// readReasonCodes returns the codes of the reasons why a revision is not ready: those of the registry, and those of
// jobs and the agent that the registry passes on.
func readReasonCodes(t *testing.T) map[string]bool {
	t.Helper()
	c := &errorCodes{consts: map[string]constant{}}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		if within(s.path, reasonRegistry) || within(s.path, reasonExecutor) || within(s.path, reasonWaiting) {
			c.add(s)
		}
	}
	codes := map[string]bool{}
	found := func(texts []string) {
		for _, text := range texts {
			codes[text] = true
		}
	}
	for _, f := range c.files {
		if !within(f.path, reasonRegistry) {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, _ := d.(*ast.FuncDecl)
			ast.Inspect(d, func(n ast.Node) bool {
				if e := reasonCode(f, n); e != nil {
					texts, known := c.reasonTexts(f, fn, e)
					require.True(t, known, "%s: this test cannot find the value of a reason's code", f.path)
					found(texts)
				}
				return true
			})
		}
	}
	for name, k := range c.consts {
		for _, prefix := range []string{reasonExecutor + ".Code", reasonExecutor + ".Reason", reasonWaiting + ".Wait"} {
			if strings.HasPrefix(name, module+"/"+prefix) {
				found(c.resolve(k.file, nil, k.expr).texts)
			}
		}
	}
	// The registry replaces these exit reasons by engine_lost and engine_exited.
	for _, replaced := range []string{"lost", "start"} {
		delete(codes, replaced)
	}
	return codes
}

// reasonCode returns the expression of the code if n creates a reason, or nil.
func reasonCode(f *codeFile, n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.CompositeLit:
		if lastName(n.Type) != "Reason" {
			return nil
		}
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok && lastName(pair.Key) == "Code" {
				return pair.Value
			}
		}
	case *ast.CallExpr:
		if f.callee(n) == module+"/"+reasonRegistry+"/revision.reported" {
			return n.Args[2]
		}
	}
	return nil
}

// reasonTexts returns the texts that a reason's code can have, and whether it could find them. A parameter has no texts
// of its own, because the calls state them. A field, such as a session's state, has the texts that its package assigns
// to it.
func (c *errorCodes) reasonTexts(f *codeFile, fn *ast.FuncDecl, e ast.Expr) (texts []string, known bool) {
	v := c.resolve(f, fn, e)
	field, ok := e.(*ast.SelectorExpr)
	if !ok || len(v.texts) > 0 {
		return v.texts, len(v.texts) > 0 || v.param >= 0
	}
	for _, other := range c.files {
		if other.pkg != f.pkg {
			continue
		}
		ast.Inspect(other.ast, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || len(assign.Lhs) != len(assign.Rhs) {
				return true
			}
			for i, left := range assign.Lhs {
				if x, ok := left.(*ast.SelectorExpr); ok && x.Sel.Name == field.Sel.Name {
					texts = append(texts, c.resolve(other, nil, assign.Rhs[i]).texts...)
				}
			}
			return true
		})
	}
	return texts, len(texts) > 0
}

func TestRevisionReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	page := documentedCodes(t, readErrorsPage(t), setReason)
	require.ElementsMatch(t, slices.Sorted(maps.Keys(readReasonCodes(t))), slices.Sorted(maps.Keys(page)),
		"listA contains the codes of reasons in the source, listB those in %s", errorsPage)
}
