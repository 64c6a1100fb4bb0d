package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// pathSpan matches a path in backticks and the names in backticks after it, separated by commas.
	pathSpan = regexp.MustCompile("`([A-Za-z0-9_.*/{},-]+)`((?:,? `[A-Za-z_][A-Za-z0-9_.]*`)*)")
	// nameSpan matches one name in backticks.
	nameSpan = regexp.MustCompile("`([A-Za-z0-9_.]+)`")
	// braces matches a pattern with alternatives, such as a{b,c}.
	braces = regexp.MustCompile(`^([^{}]*)\{([^{}]*)\}([^{}]*)$`)
	// standIn matches a placeholder such as A in services/A.
	standIn = regexp.MustCompile(`/[A-Z](/|$)`)
	// numbered matches a step of a flow.
	numbered = regexp.MustCompile(`^\d+\. `)
)

// missingNames returns the paths and functions in a page that do not exist in the repository with the root folder
// top. It considers paths in backticks, and functions in backticks directly after a file.
func missingNames(top, page string) []string {
	var out []string
	for _, span := range pathSpan.FindAllStringSubmatch(page, -1) {
		if !repositoryPath(top, span[1]) {
			continue
		}
		for _, p := range alternatives(span[1]) {
			if found, err := filepath.Glob(filepath.Join(top, strings.TrimSuffix(p, "/..."))); err != nil || len(found) == 0 {
				out = append(out, p+" does not exist")
			}
		}
		for _, name := range nameSpan.FindAllStringSubmatch(span[2], -1) {
			if declared, known := declarations(filepath.Join(top, span[1])); known && !slices.Contains(declared, name[1]) {
				out = append(out, fmt.Sprintf("%s does not declare %s", span[1], name[1]))
			}
		}
	}
	return out
}

// repositoryPath reports whether a word in backticks is meant as a path from the root of the repository. That is so if
// its first element exists at the root, or if it is a source file below at least three folders. The second condition
// finds paths whose top-level folder was removed, so that the caller reports them as missing.
func repositoryPath(top, word string) bool {
	first, rest, deep := strings.Cut(word, "/")
	if !deep || first == "" || standIn.MatchString(word) {
		return false
	}
	if _, err := os.Stat(filepath.Join(top, first)); err == nil {
		return true
	}
	return strings.Count(rest, "/") > 1 && slices.Contains([]string{".go", ".py", ".js"}, path.Ext(word))
}

func alternatives(p string) []string {
	m := braces.FindStringSubmatch(p)
	if m == nil {
		return []string{p}
	}
	var out []string
	for word := range strings.SplitSeq(m[2], ",") {
		out = append(out, m[1]+word+m[3])
	}
	return out
}

// otherFunctions matches the functions that a file declares. The keys are file name extensions.
var otherFunctions = map[string]*regexp.Regexp{
	".py": regexp.MustCompile(`(?m)^ *(?:async )?def (\w+)\(`),
	".js": regexp.MustCompile(`(?m)^ *(?:const (\w+) = (?:async )?\(|(?:async )?function (\w+)\()`),
}

// declarations returns the functions of a file. For Go it returns methods as Method and as Type.Method. The result
// known is false if the file is missing or its language is not supported.
func declarations(file string) (names []string, known bool) {
	if path.Ext(file) == ".go" {
		return goDeclarations(file)
	}
	form := otherFunctions[path.Ext(file)]
	raw, err := os.ReadFile(file)
	if form == nil || err != nil {
		return nil, false
	}
	for _, m := range form.FindAllSubmatch(raw, -1) {
		for _, name := range m[1:] {
			names = append(names, string(name))
		}
	}
	return names, true
}

func goDeclarations(file string) (names []string, known bool) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, false
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		names = append(names, f.Name.Name)
		if f.Recv != nil {
			names = append(names, receiver(f.Recv.List[0].Type)+"."+f.Name.Name)
		}
	}
	return names, true
}

// receiver returns the name of a receiver's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func TestFlowsNameExistingFiles(t *testing.T) {
	t.Parallel()
	top := root(t)
	pages, err := filepath.Glob(filepath.Join(top, "docs/contributing/*.md"))
	require.NoError(t, err)
	require.Contains(t, pages, filepath.Join(top, "docs/contributing/flows.md"))
	records, err := filepath.Glob(filepath.Join(top, decisions, "*.md"))
	require.NoError(t, err)
	pages = append(pages, records...)
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Empty(t, missingNames(top, string(raw)), page)
	}
}

func TestFlowsStepsBeginWithFileAndFunction(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root(t), "docs/contributing/flows.md"))
	require.NoError(t, err)
	steps := 0
	for line := range strings.Lines(string(raw)) {
		if at := numbered.FindStringIndex(line); at != nil {
			steps++
			span := pathSpan.FindStringSubmatchIndex(line)
			require.True(t, span != nil && span[0] == at[1] && span[4] < span[5], line)
		}
	}
	require.Greater(t, steps, 50)
}

func TestFlowsCheckFindsMissingNames(t *testing.T) {
	t.Parallel()
	const own = "test/layout/flows_test.go"
	for text, want := range map[string][]string{
		"`" + own + "` `receiver`, `alternatives`: text `nothing`":     nil,
		"`" + own + "` `receiver`, `removed`":                          {own + " does not declare removed"},
		"`gateway/rest.go` `Gateway.ServeHTTP`, `ServeHTTP`":           nil,
		"`gateway/rest.go` `Server.ServeHTTP`":                         {"gateway/rest.go does not declare Server.ServeHTTP"},
		"`services/ingest/internal/follow/stream.go` `Streams.Follow`": nil,
		"`sdk/python/src/signalbox/run.py` `removed`":                  {"sdk/python/src/signalbox/run.py does not declare removed"},
		"`gateway/internal/webpage/asset/login.js` `removed`":          {"gateway/internal/webpage/asset/login.js does not declare removed"},
		"`test/layout/removed.go` `Any`":                               {"test/layout/removed.go does not exist"},
		"`removed/internal/area/file.go`":                              {"removed/internal/area/file.go does not exist"},
		"`platform/{rpc,removed}`":                                     {"platform/removed does not exist"},
		"`test/layout/*.go`, `services/A`, `/api/jobs`, `grpc/codes`":  nil,
	} {
		require.Equal(t, want, missingNames(root(t), text), text)
	}
}
