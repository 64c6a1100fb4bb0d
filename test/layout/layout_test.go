// Package layout checks the rules for this source tree: the imports between packages, package names, the
// sizes of files, and that every package has a comment.
// The linter depguard also reports forbidden imports, with their lines.
package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/signalbox-dev/signalbox"

var services = []string{"auth", "jobs", "ingest", "registry", "inference"}

// pkg is the description of a package by `go list`.
type pkg struct {
	ImportPath string
	Dir        string
	Name       string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// listed runs `go list` once for all tests: it returns every package of the module with its dependencies.
var listed = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,GoFiles,Imports,Deps", "./...")
	cmd.Dir = top()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, &stderr)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		all = append(all, p)
	}
})

// list returns the packages in the folder, or all packages of the module if folder is "".
func list(t *testing.T, folder string) []pkg {
	t.Helper()
	all, err := listed()
	require.NoError(t, err)
	found := slices.DeleteFunc(slices.Clone(all), func(p pkg) bool { return folder != "" && !within(p.ImportPath, module+"/"+folder) })
	require.NotEmpty(t, found, folder)
	return found
}

func top() string { return filepath.Join("..", "..") }

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(top())
	require.NoError(t, err)
	return dir
}

// ownImports returns the imports of packages in this module, relative to the module.
func ownImports(imports []string) []string {
	var out []string
	for _, i := range imports {
		if rest, ok := strings.CutPrefix(i, module+"/"); ok {
			out = append(out, rest)
		}
	}
	return out
}

func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// forbidden returns the reason why one package must not import another, or "" if the import is allowed.
func forbidden(from, to string) string {
	switch {
	case within(from, "platform"):
		if within(to, "gen") && !within(to, "gen/signalbox/options") {
			return "platform may import only the options from the generated code"
		}
		if !within(to, "platform") && !within(to, "gen") {
			return "platform must not import packages above it"
		}
	case within(from, "gateway"):
		if within(to, "services") || within(to, "agent") {
			return "the gateway must not import a service or the agent"
		}
	case within(from, "agent"):
		if within(to, "services") || within(to, "gateway") {
			return "the agent must not import a service or the gateway"
		}
	}
	for _, s := range services {
		own := "services/" + s
		if within(from, own) && (within(to, "gateway") || within(to, "agent") || (within(to, "services") && !within(to, own))) {
			return "a service must not import another service, the gateway or the agent"
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "") {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, to := range ownImports(p.Imports) {
			require.Empty(t, forbidden(from, to), "%s must not import %s", from, to)
		}
	}
}

func TestForbidden_detectsEachRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to string }{
		{"platform/pg", "services/auth"},
		{"platform/pg", "gen/signalbox/jobs/v1"},
		{"platform/pg", "internal/boot"},
		{"gateway", "services/jobs"},
		{"services/auth/internal/session", "services/jobs"},
		{"services/jobs", "gateway"},
		{"agent/controlplane", "services/jobs"},
	} {
		require.NotEmpty(t, forbidden(c.from, c.to), "%s must not be allowed to import %s", c.from, c.to)
	}
	require.Empty(t, forbidden("services/auth", "platform/pg"))
	require.Empty(t, forbidden("platform/rpc", "gen/signalbox/options/v1"))
}

// binaries maps each command of an installation that runs one process per service to the service that it
// may link, if any.
func binaries() map[string]string {
	out := map[string]string{"gateway/cmd/gatewayd": "", "agent/cmd/signalbox-agent": ""}
	for _, s := range services {
		out["services/"+s+"/cmd/"+s+"d"] = "services/" + s
	}
	return out
}

func TestBinaries_linkOnlyTheirService(t *testing.T) {
	t.Parallel()
	for command, own := range binaries() {
		found := list(t, command)
		require.Len(t, found, 1)
		for _, dep := range ownImports(found[0].Deps) {
			if within(dep, "services") {
				require.True(t, own != "" && within(dep, own), "%s must not link %s", command, dep)
			}
		}
	}
}

func TestStatusCodes_onlyAtTheEdge(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "") {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		if within(from, "platform/rpc") || within(from, "platform/fault") || within(from, "gateway") || within(from, "gen") {
			continue
		}
		for _, i := range p.Imports {
			require.NotContains(t, []string{"google.golang.org/grpc/codes", "google.golang.org/grpc/status"}, i, from)
		}
	}
}

// area reports whether a package owns a resource, which means that it has a store and a server.
func area(p pkg) bool {
	has := func(prefix string) bool {
		return slices.ContainsFunc(p.GoFiles, func(f string) bool { return strings.HasPrefix(f, prefix) })
	}
	return has("store") && has("server")
}

func TestDomainFiles_importNoInfrastructure(t *testing.T) {
	t.Parallel()
	banned := []string{"github.com/jackc/pgx", "google.golang.org/grpc", module + "/gen"}
	areas := 0
	for _, p := range list(t, "services") {
		domain := path.Base(p.ImportPath) + ".go" // the file with the types and the rules
		if !area(p) || !slices.Contains(p.GoFiles, domain) {
			continue
		}
		areas++
		for _, i := range imports(t, filepath.Join(p.Dir, domain)) {
			for _, b := range banned {
				require.False(t, strings.HasPrefix(i, b), "%s/%s must not import %s", p.ImportPath, domain, i)
			}
		}
	}
	require.GreaterOrEqual(t, areas, 5)
}

func TestPackageNames(t *testing.T) {
	t.Parallel()
	banned := []string{"common", "util", "utils", "helper", "helpers", "types", "models", "model_", "base", "misc", "shared"}
	for _, p := range list(t, "") {
		if within(strings.TrimPrefix(p.ImportPath, module+"/"), "gen") || p.Name == "main" {
			continue
		}
		require.False(t, slices.Contains(banned, p.Name), "%s must have a more specific package name", p.ImportPath)
		for _, file := range p.GoFiles {
			require.NotContains(t, []string{"utils.go", "util.go", "helpers.go", "common.go", "misc.go"}, file, p.ImportPath)
		}
	}
}
