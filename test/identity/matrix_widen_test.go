package identity

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/signalbox-dev/signalbox/gen/route"
	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// changesDrawn is the number of changes that `make test` tries.
const changesDrawn = 3

// change is one way to make an access option wrong.
type change struct {
	name string
	make func(a *optionsv1.Access) bool // returns false if the change does not apply to the option
}

func changes() []change {
	role := func(from, to optionsv1.Role) func(*optionsv1.Access) bool {
		return func(a *optionsv1.Access) bool { is := a.GetRole() == from; a.Role = to; return is }
	}
	need := func(from, to optionsv1.Need) func(*optionsv1.Access) bool {
		return func(a *optionsv1.Access) bool { is := a.GetNeed() == from; a.Need = to; return is }
	}
	return []change{
		{"admin role lowered to operator", role(optionsv1.Role_ROLE_ADMIN, optionsv1.Role_ROLE_OPERATOR)},
		{"edit lowered to read", need(optionsv1.Need_NEED_EDIT, optionsv1.Need_NEED_READ)},
		{"manage lowered to edit", need(optionsv1.Need_NEED_MANAGE, optionsv1.Need_NEED_EDIT)},
		{"manage lowered to read", need(optionsv1.Need_NEED_MANAGE, optionsv1.Need_NEED_READ)},
		{"read lowered to none", need(optionsv1.Need_NEED_READ, optionsv1.Need_NEED_NONE)},
		{"temporary password accepted", func(a *optionsv1.Access) bool {
			is := a.GetCredential() == optionsv1.Credential_CREDENTIAL_USER && !a.GetDrawnPassword()
			a.DrawnPassword = true
			return is
		}},
		{"temporary password rejected", func(a *optionsv1.Access) bool { is := a.GetDrawnPassword(); a.DrawnPassword = false; return is }},
		{"credential not required", func(a *optionsv1.Access) bool {
			is := a.GetCredential() == optionsv1.Credential_CREDENTIAL_USER
			proto.Reset(a)
			a.Credential = optionsv1.Credential_CREDENTIAL_NONE
			return is
		}},
	}
}

// ineffectiveChanges returns the changes that have no effect, each with the reason.
func ineffectiveChanges() map[string]string {
	const team = "only its leads may change a team, so edit and manage are the same"
	const tables = "the matrix reads no streams; tests of tablefeed compare each user's stream with the list"
	const turns = "the registry itself checks the caller's read access and password for a transcript; its own tests cover that"
	return map[string]string{
		"manage lowered to edit: signalbox.auth.v1.TeamService/UpdateTeam":                team,
		"manage lowered to edit: signalbox.auth.v1.TeamService/PutTeamMember":             team,
		"manage lowered to edit: signalbox.auth.v1.TeamService/RemoveTeamMember":          team,
		"read lowered to none: signalbox.registry.v1.LineageService/GetRunLineage":        "the registry reads the run from jobs, with the rights of the caller",
		"read lowered to none: signalbox.jobs.v1.ClusterService/ListQueue":                "every user sees that a job waits; a test of the service covers the hidden names",
		"read lowered to none: signalbox.jobs.v1.JobService/WatchJobs":                    tables,
		"read lowered to none: signalbox.jobs.v1.RunService/WatchRuns":                    tables,
		"read lowered to none: signalbox.inference.v1.TranscriptService/ListTurns":        turns,
		"temporary password accepted: signalbox.inference.v1.TranscriptService/ListTurns": turns,
	}
}

// helpers returns the methods that prepare cells. They are changed separately from the others.
func helpers() []string {
	return []string{
		"signalbox.registry.v1.DeploymentService/CreateDeploymentToken", "signalbox.registry.v1.DatasetService/CreateDatasetVersion",
		"signalbox.auth.v1.TeamService/CreateTeam", "signalbox.auth.v1.TeamService/PutTeamMember", "signalbox.auth.v1.ProjectService/PutProjectMember",
		"signalbox.auth.v1.ProfileService/ListSessions", "signalbox.auth.v1.SettingService/ListSettings", "signalbox.jobs.v1.FleetService/CreateFleet",
		"signalbox.auth.v1.UserService/CreateUser", "signalbox.auth.v1.UserService/UpdateUser",
		"signalbox.jobs.v1.ShareService/CreateShare", "signalbox.jobs.v1.JobService/StopJob", "signalbox.jobs.v1.JobService/GetJob",
		"signalbox.jobs.v1.RunService/UpdateRun",
		"signalbox.registry.v1.EnvironmentService/CreateEnvironmentVersion", "signalbox.registry.v1.ModelService/SetModelAlias",
	}
}

// optionOf returns a copy of the access option of an RPC.
func optionOf(t *testing.T, rpc string) *optionsv1.Access {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.Replace(rpc, "/", ".", 1)))
	require.NoError(t, err)
	access, ok := proto.GetExtension(found.Options(), optionsv1.E_Access).(*optionsv1.Access)
	require.True(t, ok)
	return proto.CloneOf(access)
}

// changedOptions returns the methods to which a change applies, with their changed options. If helping is true, it
// considers only the methods in helpers(), otherwise only the others.
func changedOptions(t *testing.T, c change, helping bool) map[string]*optionsv1.Access {
	t.Helper()
	out := map[string]*optionsv1.Access{}
	for _, rt := range route.Table() {
		if rt.RPC == "" || slices.Contains(helpers(), rt.RPC) != helping {
			continue
		}
		if a := optionOf(t, rt.RPC); c.make(a) {
			out[rt.RPC] = a
		}
	}
	return out
}

// requireCellsFail restarts the installation with a program whose access options can be changed. For each drawn change,
// it changes the options of methods to which the change applies. At least one cell of each of these methods must then
// fail, unless ineffectiveChanges lists the change.
func (w *harness) requireCellsFail(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	w.Program(buildChangeable(t))
	killed, checked := 0, map[string]bool{}
	picker := draw.New(t)
	for _, c := range draw.Some(picker, changesDrawn, changes(), func(c change) string { return c.name }) {
		for _, helping := range []bool{false, true} {
			options := changedOptions(t, c, helping)
			drawn := draw.OneIn(picker, rowShare, slices.Sorted(maps.Keys(options)), func(rpc string) string { return c.name + ": " + rpc })
			maps.DeleteFunc(options, func(rpc string, _ *optionsv1.Access) bool { return !slices.Contains(drawn, rpc) })
			if len(options) == 0 {
				continue
			}
			w.startWith(t, file, options)
			t.Run(c.name, func(t *testing.T) {
				for _, rpc := range slices.Sorted(maps.Keys(options)) {
					if ineffectiveChanges()[c.name+": "+rpc] == "" {
						assert.True(t, w.anyCellFails(ctx, t, rpc), "%s: no cell detects the change %q", rpc, c.name)
					} else {
						assert.False(t, w.anyCellFails(ctx, t, rpc), "%s: a cell fails although the change %q has no effect", rpc, c.name)
					}
					killed++
					checked[rpc] = true
				}
			})
		}
	}
	// With unchanged options no cell may fail. This proves that the changes caused the failures above.
	w.startWith(t, file, nil)
	for rpc := range checked {
		assert.False(t, w.anyCellFails(ctx, t, rpc), "%s: a cell fails with unchanged options", rpc)
	}
	t.Logf("tested %d changed options", killed)
}

// anyCellFails reports whether a cell of the method fails.
func (w *harness) anyCellFails(ctx context.Context, t *testing.T, rpc string) bool {
	t.Helper()
	for _, r := range routes.Load().Rows {
		if r.RPC != rpc {
			continue
		}
		for _, c := range cells(r) {
			if a, _ := w.sendCell(ctx, t, c); w.fault(c, a) != "" {
				return true
			}
		}
	}
	return false
}

// startWith restarts the installation. The given access options replace the product's own options of their methods.
func (w *harness) startWith(t *testing.T, file string, options map[string]*optionsv1.Access) {
	t.Helper()
	out := map[string]json.RawMessage{}
	for rpc, a := range options {
		raw, err := protojson.Marshal(a)
		require.NoError(t, err)
		out[rpc] = raw
	}
	raw, err := json.Marshal(out)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	_, ended := w.Processes["signalboxd"].Stop(time.Minute)
	require.True(t, ended)
	w.StartSingle()
}

// buildChangeable builds signalboxd with an overlay of two files that can change access options. The product
// itself cannot change them.
func buildChangeable(t *testing.T) string {
	t.Helper()
	root, dir := testenv.Root(t), t.TempDir()
	here := filepath.Join(root, "test", "identity", "testdata", "widen")
	table := filepath.Join(root, "gen", "route", "table.go")
	source, err := os.ReadFile(table)
	require.NoError(t, err)
	const declaration = "func Table() []Route {"
	require.Equal(t, 1, strings.Count(string(source), declaration))
	renamed := filepath.Join(dir, "table.go")
	require.NoError(t, os.WriteFile(renamed, []byte(strings.Replace(string(source), declaration, "func table() []Route {", 1)), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		table: renamed,
		filepath.Join(root, "gen", "route", "changed.go"):      filepath.Join(here, "route.go"),
		filepath.Join(root, "cmd", "signalboxd", "changed.go"): filepath.Join(here, "main.go"),
	}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	program := filepath.Join(dir, "signalboxd")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/signalboxd")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// TestAccessOptions_neverChangedByProduct checks in the product's source that access options are read in
// one file only and never changed.
func TestAccessOptions_neverChangedByProduct(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	readers := map[string]bool{}
	for _, top := range []string{"agent", "cmd", "gateway", "internal", "platform", "services"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			for _, word := range []string{"SetExtension(", "ClearExtension(", "RangeExtensions(", "RegisterExtension(", "//go:linkname", "WIDEN"} {
				assert.NotContains(t, string(raw), word, path)
			}
			if strings.Contains(string(raw), "E_Access") {
				rel, _ := filepath.Rel(root, path)
				readers[rel] = true
			}
			return err
		})
		require.NoError(t, err)
	}
	require.Equal(t, map[string]bool{"platform/rpc/access.go": true}, readers)
}
