package chart

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// edge is a connection from one service to a port of another. The port is grpc or http.
type edge struct{ from, to, port string }

// mains maps each process to the folder of its main package.
func mains() map[string]string {
	return map[string]string{
		"auth": "services/auth/cmd/authd", "jobs": "services/jobs/cmd/jobsd", "ingest": "services/ingest/cmd/ingestd",
		"registry": "services/registry/cmd/registryd", "inference": "services/inference/cmd/inferenced", "gateway": "gateway/cmd/gatewayd",
	}
}

// dialled returns the services that a process dials: the arguments of DialAll in its main package.
func dialled(t *testing.T, dir string) []string {
	t.Helper()
	file := parseGo(t, dir+"/main.go")
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if name, ok := call.Fun.(*ast.SelectorExpr); !ok || name.Sel.Name != "DialAll" {
			return true
		}
		for _, arg := range call.Args[1:] {
			if _, isCall := arg.(*ast.CallExpr); isCall { // auth.PeerNames()
				names = append(names, returned(t, parseGo(t, "services/auth/service.go"), "PeerNames")...)
				continue
			}
			names = append(names, text(t, arg))
		}
		return false
	})
	require.NotEmpty(t, names, dir)
	return names
}

// returned returns the texts in the list that a function returns.
func returned(t *testing.T, file *ast.File, function string) (out []string) {
	t.Helper()
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != function {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				out = append(out, text(t, lit))
			}
			return true
		})
	}
	require.NotEmpty(t, out)
	return out
}

func parseGo(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, readTop(t, name), 0)
	require.NoError(t, err)
	return file
}

func text(t *testing.T, e ast.Expr) string {
	t.Helper()
	lit, ok := e.(*ast.BasicLit)
	require.True(t, ok)
	s, err := strconv.Unquote(lit.Value)
	require.NoError(t, err)
	return s
}

// codeEdges returns the connections that the programs open: those that they dial, and the relays of the gateway.
func codeEdges(t *testing.T) []edge {
	t.Helper()
	var edges []edge
	for name, dir := range mains() {
		for _, to := range dialled(t, dir) {
			edges = append(edges, edge{name, to, "grpc"})
		}
	}
	for _, m := range regexp.MustCompile(`env:"SERVICE_GATEWAY_([A-Z]+)_ADDR"`).FindAllStringSubmatch(readTop(t, "gateway/config.go"), -1) {
		edges = append(edges, edge{"gateway", strings.ToLower(m[1]), "http"})
	}
	return sorted(edges)
}

// protoEdges returns the connections that the access options of the protos permit. Methods for users accept calls only
// from the gateway; those of common and search belong to every service.
func protoEdges(t *testing.T) []edge {
	t.Helper()
	found := map[edge]bool{}
	option := regexp.MustCompile(`\(signalbox\.options\.v1\.access\) = \{([^}]*)\}`)
	walk(t, "proto/signalbox", ".proto", func(name, content string) {
		service := strings.Split(name, "/")[2]
		for _, m := range option.FindAllStringSubmatch(content, -1) {
			_, peers, between := strings.Cut(m[1], "peers:")
			callers := []string{"gateway"}
			if between {
				callers = nil
				for _, q := range regexp.MustCompile(`"([a-z]+)"`).FindAllStringSubmatch(peers, -1) {
					callers = append(callers, q[1])
				}
			}
			to := []string{service}
			if mains()[service] == "" {
				to = []string{"auth", "jobs", "ingest", "registry", "inference"}
			}
			for _, from := range callers {
				for _, callee := range to {
					if from != callee && !strings.Contains(m[1], "CREDENTIAL_AGENT") {
						found[edge{from, callee, "grpc"}] = true
					}
				}
			}
		}
	})
	return sorted(slices.Collect(maps.Keys(found)))
}

func sorted(edges []edge) []edge {
	slices.SortFunc(edges, func(a, b edge) int {
		return strings.Compare(a.from+" "+a.to+" "+a.port, b.from+" "+b.to+" "+b.port)
	})
	return slices.Compact(edges)
}

// walk reads all files with a suffix below a folder.
func walk(t *testing.T, dir, suffix string, read func(name, content string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(filepath.FromSlash(top)), dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, suffix) {
			read(name, readTop(t, name))
		}
		return err
	})
	require.NoError(t, err)
}

// ports returns the port of each listener in deploy/env, by service and name of the port.
func ports(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{"LISTEN": "grpc", "HTTP_LISTEN": "http", "AGENT_LISTEN": "agents"}
	out := map[string]string{"gateway public": "8080"}
	for service := range mains() {
		for _, m := range regexp.MustCompile(`(?m)^SERVICE_`+strings.ToUpper(service)+`_([A-Z_]*LISTEN)=.*:(\d+)$`).
			FindAllStringSubmatch(readTop(t, path.Join("deploy/env", service+".env")), -1) {
			out[service+" "+names[m[1]]] = m[2]
		}
	}
	return out
}

func TestProtosPermitWhatTheProgramsDial(t *testing.T) {
	t.Parallel()
	var grpc []edge
	for _, e := range codeEdges(t) {
		if e.port == "grpc" {
			grpc = append(grpc, e)
		}
	}
	require.Equal(t, protoEdges(t), grpc)
}
