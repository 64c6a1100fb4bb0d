package recipe

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
)

// projects has the projects default, which everyone can see, and team and sft.
type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	p := &access.Project{ID: "prj_" + key, Key: key, Visibility: "team"}
	if key == access.DefaultProject {
		p.Visibility = "all"
	}
	return p, nil
}

// as returns the context of a call by an operator with the given role in the projects team and sft.
func as(t *testing.T, subject, role string) context.Context {
	t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_" + subject, Username: subject, Role: authn.RoleOperator}
	if role != "" {
		c.Projects = []authn.ProjectRole{{Project: "prj_team", Role: role}, {Project: "prj_sft", Role: role}}
	}
	ctx := grpc.NewContextWithServerTransportStream(authn.NewContext(t.Context(), c), &headers{})
	return authn.WithNeed(ctx, authn.NeedEdit)
}

// someone returns the context of a call by an operator who has no role in any project.
func someone(t *testing.T) context.Context {
	t.Helper()
	return authn.WithNeed(as(t, "some", ""), authn.NeedRead)
}

// administrator returns the context of a call by an administrator.
func administrator(t *testing.T) context.Context {
	t.Helper()
	root := &authn.Caller{Kind: authn.KindUser, Subject: "usr_root", Username: "root", Role: authn.RoleAdmin}
	return authn.WithNeed(authn.NewContext(as(t, "root", ""), root), authn.NeedEdit)
}

// ownManifest is the manifest of team/own, with some of its members replaced. A member that is nil is left out.
func ownManifest(t *testing.T, members map[string]any) []byte {
	t.Helper()
	m := map[string]any{
		"api": "service/v1", "name": "team/own", "version": "1.0", "title": "Own", "entrypoint": []string{"python", "train.py"},
		"framework":     map[string]any{"name": "python", "runtime_id": "py-1", "python": ">=3.11"},
		"params_schema": map[string]any{"type": "object", "properties": map[string]any{"lr": map[string]any{"type": "number", "default": 0.1}}},
		"inputs":        []any{map[string]any{"name": "train", "kind": "dataset", "required": true, "format": "jsonl"}},
		"metrics":       []any{map[string]any{"key": "loss", "goal": "minimize"}},
	}
	for name, value := range members {
		m[name] = value
		if value == nil {
			delete(m, name)
		}
	}
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	return raw
}

// pack stores an accepted package of a project. The arguments alternate between paths and contents.
func (d *harness) pack(project string, files ...string) string {
	d.t.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		require.NoError(d.t, out.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[i+1]))}))
		_, err := out.Write([]byte(files[i+1]))
		require.NoError(d.t, err)
	}
	require.NoError(d.t, out.Close())
	sum := sha256.Sum256(b.Bytes())
	d.packages++
	p, err := projects{}.Project(d.t.Context(), project)
	require.NoError(d.t, err)
	bundle := &codepackage.Bundle{
		Owner: access.Owner{UserID: "usr_ann", UserName: "ann", ProjectID: p.ID, Project: project, Visibility: p.Visibility}, CreatedAt: d.clock.Now(),
		ID: fmt.Sprintf("pkg_%026d", d.packages), SHA256: hex.EncodeToString(sum[:]), Size: int64(b.Len()), State: codepackage.StateAccepted,
	}
	require.NoError(d.t, d.trees.Put(d.t.Context(), codepackage.Key(p.ID, bundle.SHA256), &b, 0, ""))
	require.NoError(d.t, pg.InTx(d.t.Context(), d.Pool, func(ctx context.Context, tx pgx.Tx) error { return d.Packages.Insert(ctx, tx, bundle) }))
	return bundle.ID
}

func (d *harness) publish(ctx context.Context, packageID string) (*registryv1.Recipe, error) {
	return d.PublishRecipe(ctx, &registryv1.PublishRecipeRequest{PackageId: packageID})
}

// openOwn opens a server, and returns a function that packs team/own with the given code.
func openOwn(t *testing.T) (d *harness, packed func(version, code string) string) {
	t.Helper()
	d = open(t, catalog())
	d.ship(catalog())
	return d, func(version, code string) string {
		return d.pack("team", "recipe.json", string(ownManifest(t, map[string]any{"version": version})), "train.py", code)
	}
}

func TestPublishRecipe_versionNeverChanges(t *testing.T) {
	t.Parallel()
	d, packed := openOwn(t)
	ann := as(t, "ann", authn.ProjectEditor)
	first, err := d.publish(ann, packed("1.0", "print(1)"))
	require.NoError(t, err)
	require.Equal(t, []any{"team/own", "1.0", "active", "team", "ann", false},
		[]any{first.GetName(), first.GetVersion(), first.GetState(), first.GetProject(), first.GetOwner(), first.GetTrusted()})
	again, err := d.publish(as(t, "bob", authn.ProjectEditor), packed("1.0", "print(1)"))
	require.NoError(t, err)
	require.Equal(t, first.GetDigest(), again.GetDigest())
	require.Equal(t, "ann", again.GetOwner())
	_, err = d.publish(ann, packed("1.0", "print(2)"))
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "recipe_version"), "%v", err)
	require.ErrorContains(t, err, first.GetDigest())
	_, err = d.publish(as(t, "bob", authn.ProjectEditor), packed("1.10", "print(2)"))
	require.NoError(t, err, "another editor publishes the next version")
	_, err = d.publish(as(t, "bob", authn.ProjectEditor), packed("1.9", "print(3)"))
	require.NoError(t, err)
	newest, err := d.GetRecipe(ann, &registryv1.GetRecipeRequest{Namespace: "team", Name: "own"})
	require.NoError(t, err)
	require.Equal(t, "1.10", newest.GetVersion())
	var rows, events int
	require.NoError(t, d.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM audit WHERE action = 'recipe.publish'),
		(SELECT count(*) FROM event WHERE subject_kind = 'recipe')`).Scan(&rows, &events))
	require.Equal(t, []int{3, 3}, []int{rows, events})
}

func TestPublishRecipe_onlyProjectSees(t *testing.T) {
	t.Parallel()
	d, packed := openOwn(t)
	id := packed("1.0", "print(1)")
	for _, role := range []string{"", authn.ProjectViewer} {
		_, err := d.publish(as(t, "eve", role), id)
		require.Error(t, err)
		require.False(t, fault.Is(err, fault.Conflict))
	}
	_, err := d.publish(as(t, "ann", authn.ProjectEditor), id)
	require.NoError(t, err)
	count := func(ctx context.Context) int {
		list, err := d.ListRecipes(ctx, &registryv1.ListRecipesRequest{})
		require.NoError(t, err)
		return len(list.GetRecipes())
	}
	require.Equal(t, 3, count(as(t, "vic", authn.ProjectViewer)))
	require.Equal(t, 2, count(someone(t)))
	require.Zero(t, count(t.Context()), "the versions of the installation have no owner, and a call without a user is not their owner")
	project := "team"
	list, err := d.ListRecipes(as(t, "vic", authn.ProjectViewer), &registryv1.ListRecipesRequest{Project: &project})
	require.NoError(t, err)
	require.Len(t, list.GetRecipes(), 1)
	key := &registryv1.GetRecipeVersionRequest{Namespace: "team", Name: "own", Version: "1.0"}
	_, err = d.GetRecipeVersion(someone(t), key)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = d.GetRecipe(someone(t), &registryv1.GetRecipeRequest{Namespace: "team", Name: "own"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = d.ListRecipeDownloads(someone(t), &registryv1.ListRecipeDownloadsRequest{Namespace: "team", Name: "own", Version: "1.0"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	files, err := d.ListRecipeDownloads(as(t, "vic", authn.ProjectViewer), &registryv1.ListRecipeDownloadsRequest{Namespace: "team", Name: "own", Version: "1.0"})
	require.NoError(t, err)
	require.Regexp(t, `^http://objects/projects/prj_team/packages/[0-9a-f]{64}$`, files.GetFiles()[0].GetUrl())
	found, err := Store{}.Candidates(t.Context(), d.Pool, authn.CallerOf(someone(t)).Reads(), "team/own", "1.0", 1)
	require.NoError(t, err)
	require.Empty(t, found, "the jobs of other users cannot use it")
}

func TestPublishRecipe_namesBelongToProjectAndOwner(t *testing.T) {
	t.Parallel()
	d, _ := openOwn(t)
	shared := func(version string) string {
		return d.pack("default", "recipe.json", string(ownManifest(t, map[string]any{"name": "default/own", "version": version})), "train.py", version)
	}
	_, err := d.publish(as(t, "ann", ""), shared("1"))
	require.NoError(t, err)
	_, err = d.publish(as(t, "eve", ""), shared("2"))
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "recipe_name"), "another user must not publish the newest version: %v", err)
	got, err := d.publish(administrator(t), shared("2"))
	require.NoError(t, err)
	require.Equal(t, "ann", got.GetOwner(), "an administrator publishes for the owner, who keeps the name")
	_, err = d.publish(as(t, "ann", ""), shared("3"))
	require.NoError(t, err)
	_, err = d.UpdateRecipe(as(t, "eve", ""), &registryv1.UpdateRecipeRequest{Namespace: "default", Name: "own", Version: "2", State: "withdrawn"})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = d.publish(as(t, "ann", authn.ProjectEditor), d.pack("sft", "recipe.json", string(ownManifest(t, map[string]any{"name": "sft/other"})), "train.py", ""))
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "recipe_namespace"), "%v", err)
}

func TestSeeder_keepsRecipesOfProjects(t *testing.T) {
	t.Parallel()
	d, packed := openOwn(t)
	own, err := d.publish(as(t, "ann", authn.ProjectEditor), packed("1.0", "print(1)"))
	require.NoError(t, err)
	later := catalog()
	for _, version := range []string{"1.0", "2.0"} {
		later["team/own/recipe.json"] = later["sft/tiny/recipe.json"]
		text := strings.ReplaceAll(string(later["sft/tiny/recipe.json"].Data), "sft/tiny", "team/own")
		copied := *later["sft/tiny/recipe.json"]
		copied.Data = []byte(strings.ReplaceAll(text, `"version":"1.0"`, `"version":"`+version+`"`))
		later["team/own/recipe.json"] = &copied
		later["team/own/requirements.txt"] = later["sft/tiny/requirements.txt"]
		d.ship(later)
		got, err := d.GetRecipe(as(t, "ann", authn.ProjectEditor), &registryv1.GetRecipeRequest{Namespace: "team", Name: "own"})
		require.NoError(t, err)
		require.Equal(t, []string{own.GetDigest(), "team"}, []string{got.GetDigest(), got.GetProject()}, "a release does not replace what a project has published")
	}
}

func TestUpdateRecipe(t *testing.T) {
	t.Parallel()
	d, packed := openOwn(t)
	ann := as(t, "ann", authn.ProjectEditor)
	_, err := d.publish(ann, packed("1.0", "print(1)"))
	require.NoError(t, err)
	_, err = d.publish(ann, packed("2.0", "print(2)"))
	require.NoError(t, err)
	update := func(ctx context.Context, namespace, name, version, state string) error {
		_, err := d.UpdateRecipe(ctx, &registryv1.UpdateRecipeRequest{Namespace: namespace, Name: name, Version: version, State: state})
		return err
	}
	newest := func() string {
		got, err := d.GetRecipe(ann, &registryv1.GetRecipeRequest{Namespace: "team", Name: "own"})
		require.NoError(t, err)
		return got.GetVersion()
	}
	for range 2 {
		require.NoError(t, update(ann, "team", "own", "2.0", StateDeprecated))
	}
	require.Equal(t, "1.0", newest())
	require.NoError(t, update(ann, "team", "own", "2.0", StateActive))
	require.Equal(t, "2.0", newest())
	require.True(t, fault.Is(update(as(t, "vic", authn.ProjectViewer), "team", "own", "2.0", StateActive), fault.Forbidden))
	require.True(t, fault.Is(update(as(t, "eve", ""), "team", "own", "2.0", StateActive), fault.Absent))
	require.True(t, fault.HasCode(update(ann, "sft", "tiny", "1.0", StateDeprecated), "recipe_shipped"))
	var n int
	require.NoError(t, d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'recipe.update'`).Scan(&n))
	require.Equal(t, 2, n, "a repeated call changes nothing")
}

func TestPublishRecipe_concurrentVersionsOfOneNumber(t *testing.T) {
	t.Parallel()
	d, packed := openOwn(t)
	ids := []string{packed("1.0", "a"), packed("1.0", "b"), packed("1.0", "c"), packed("1.0", "d")}
	errs := make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		ctx := as(t, "ann", authn.ProjectEditor)
		wg.Go(func() { _, errs[i] = d.publish(ctx, id) })
	}
	wg.Wait()
	published := 0
	for _, err := range errs {
		if err == nil {
			published++
			continue
		}
		require.True(t, fault.HasCode(err, "recipe_version"), "%v", err)
	}
	require.Equal(t, 1, published)
}

func TestPublishRecipe_trustAndEnvironment(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	d.ship(catalog())
	locked := d.pack("team", "recipe.json", string(ownManifest(t, map[string]any{"requirements": "deps/lock.txt"})),
		"train.py", "", "deps/lock.txt", "numpy==2.0.0 --hash=sha256:"+strings.Repeat("0", 64)+"\n")
	own, err := d.publish(as(t, "ann", authn.ProjectEditor), locked)
	require.NoError(t, err)
	found, err := Store{}.Candidates(t.Context(), d.Pool, access.ServiceScope(), "team/own", "1.0", 1)
	require.NoError(t, err)
	job, err := ToCatalog(found[0])
	require.NoError(t, err)
	require.Equal(t, "deps/lock.txt", job.GetEnvironment().GetLock())
	require.Empty(t, job.GetEnvironment().GetRequirements(), "the requirements of a user never take the path of the installation's")
	require.Contains(t, job.GetPackage().GetUri(), "projects/prj_team/packages/")
	yes := true
	trusted, err := d.TrustRecipe(administrator(t), &registryv1.TrustRecipeRequest{
		Namespace: "team", Name: "own", Version: "1.0", Digest: own.GetDigest(), Trusted: &yes,
	})
	require.NoError(t, err)
	require.True(t, trusted.GetTrusted())
	bad := d.pack("team", "recipe.json", string(ownManifest(t, map[string]any{"requirements": "lock.txt", "version": "2"})), "train.py", "", "lock.txt", "--index-url http://x\n")
	_, err = d.publish(as(t, "ann", authn.ProjectEditor), bad)
	require.True(t, fault.Is(err, fault.Refused), "%v", err)
	missing := d.pack("team", "recipe.json", string(ownManifest(t, map[string]any{"requirements": "none.txt", "version": "2"})), "train.py", "")
	_, err = d.publish(as(t, "ann", authn.ProjectEditor), missing)
	require.ErrorContains(t, err, "no file none.txt; correct requirements in recipe.json")
}

func TestPublishRecipe_versionsBounded(t *testing.T) {
	t.Parallel()
	d, packed := openOwn(t)
	ann := as(t, "ann", authn.ProjectEditor)
	_, err := d.publish(ann, packed("1.0", "print(1)"))
	require.NoError(t, err)
	_, err = d.Pool.Exec(t.Context(), `INSERT INTO recipe (name, version, digest, manifest, requirements, state, tree_sha256, tree_bytes, locked_at, owner_id, project_id, project, visibility)
		SELECT name, '2.' || n, digest || n, manifest, requirements, state, tree_sha256, tree_bytes, locked_at, owner_id, project_id, project, visibility
		FROM recipe, generate_series(1, 999) n WHERE name = 'team/own'`)
	require.NoError(t, err)
	_, err = d.publish(ann, packed("3.0", "print(1)"))
	require.True(t, fault.HasCode(err, "recipe_version"), "%v", err)
	require.ErrorContains(t, err, "1000 versions")
}
