package solution_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

type request = registryv1.CreateSolutionApplicationRequest

func TestCreateSolutionApplication_snapshot(t *testing.T) {
	t.Parallel()
	d := open(t)
	a, status, err := d.apply(func(in *request) {
		in.BusinessTaskIds = []string{"z", "a"}
		in.Bindings.TrainDataset = new("ds/team/train@latest")
	})
	require.NoError(t, err)
	require.Empty(t, status, "the route's default status is 201")
	require.NoError(t, id.Check(id.SolutionApplication, a.GetId()))
	require.Equal(t, []string{"prj_team", "team", "support@1.0"}, []string{a.GetProject(), a.GetProjectKey(), a.GetSolution()})
	require.True(t, fixtures.Now().Equal(a.GetCreatedAt().AsTime()))
	s := a.GetSnapshot()
	require.JSONEq(t, manifest, string(s.GetManifest()))
	require.Equal(t, "ds/team/train@v1", s.GetBindings().GetTrainDataset(), "the snapshot has the exact version")
	require.Equal(t, []string{"mdl/team/base@1", "ds/team/held@v1", "env/team/math@v1", "rub/team/fair@1"},
		[]string{s.GetBindings().GetModel(), s.GetBindings().GetValidationDataset(), s.GetBindings().GetTaskset(), s.GetBindings().GetRubric()})
	require.Equal(t, []any{"sha256:tasks", int32(12), int32(1), "sha256:fair1", "sha256:recipe-1"},
		[]any{s.GetTasksetDigest(), s.GetEvaluationTasks(), s.GetRubricVersion(), s.GetRubricDigest(), s.GetRecipeDigest()})
	require.Len(t, s.GetRequirements(), 2)
	require.JSONEq(t, `{"gpus":8}`, string(s.GetRequirements()[0]))
	require.JSONEq(t, `{"python":"3.12"}`, string(s.GetToolchain()))
	require.Equal(t, []string{"a", "z"}, s.GetBusinessTaskIds())
	sum := sha256.Sum256([]byte(`["a","z"]`))
	require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), s.GetBusinessCohortDigest())
	require.Equal(t, 1, d.count(`audit WHERE action = 'solution_application.create'`))
	require.Equal(t, 1, d.count(`event WHERE subject_kind = 'solution_application'`))

	ctx, _ := as(t, "usr_1", authn.ProjectViewer, "")
	got, err := d.GetSolutionApplication(ctx, &registryv1.GetSolutionApplicationRequest{ApplicationId: a.GetId()})
	require.NoError(t, err)
	require.True(t, proto.Equal(a, got), "%v\n%v", a, got)
}

func TestCreateSolutionApplication_digestMatchesSnapshot(t *testing.T) {
	t.Parallel()
	d := open(t)
	a, _, err := d.apply(func(in *request) { in.Solution = []byte(`{"name":"bare","version":"1","recipe":"sft/tiny@1.0"}`) })
	require.NoError(t, err)
	s := a.GetSnapshot()
	require.Equal(t, []any{0, 0, "", 0}, []any{len(s.GetRequirements()), len(s.GetBusinessTaskIds()), s.GetBusinessCohortDigest(), len(s.GetToolchain())}, "optional members have their defaults")
	b := s.GetBindings()
	text := fmt.Sprintf(`{"manifest":%s,"bindings":{"model":%q,"train_dataset":%q,"validation_dataset":%q,"taskset":%q,"rubric":%q},
		"taskset_digest":"sha256:tasks","evaluation_tasks":12,"rubric_version":1,"rubric_digest":"sha256:fair1","recipe_digest":"sha256:recipe-1",
		"requirements":[],"business_task_ids":[],"business_cohort_digest":"","toolchain":null}`,
		s.GetManifest(), b.GetModel(), b.GetTrainDataset(), b.GetValidationDataset(), b.GetTaskset(), b.GetRubric())
	want, err := canon.Digest([]byte(text))
	require.NoError(t, err)
	require.Equal(t, want, a.GetDigest())
}

func TestCreateSolutionApplication_identicalReturnsExisting(t *testing.T) {
	t.Parallel()
	d := open(t)
	first, _, err := d.apply(func(in *request) { in.BusinessTaskIds = []string{"a", "b"} })
	require.NoError(t, err)
	d.clock.Advance(time.Hour)
	for name, change := range map[string]func(*request){
		"same request":               func(*request) {},
		"members reordered":          func(in *request) { in.Solution = reordered() },
		"tasks reordered":            func(in *request) { in.BusinessTaskIds = []string{"b", "a"} },
		"solution by name":           func(in *request) { in.Solution = []byte(`"support@1.0"`) },
		"latest version":             func(in *request) { in.Bindings.Model = new("mdl/team/base@latest") },
		"number spelled differently": func(in *request) { in.Solution = bytes.Replace([]byte(manifest), []byte("0.5"), []byte("5e-1"), 1) },
	} {
		again, status, err := d.apply(func(in *request) { in.BusinessTaskIds = []string{"a", "b"} }, change)
		require.NoError(t, err, name)
		require.Equal(t, "200", status, name)
		require.True(t, proto.Equal(first, again), name)
	}
	require.Equal(t, 1, d.count(`solution_application`))
	require.Equal(t, 1, d.count(`audit WHERE action = 'solution_application.create'`))
	other, status, err := d.apply(func(in *request) { in.BusinessTaskIds = []string{"a"} })
	require.NoError(t, err)
	require.Empty(t, status)
	require.NotEqual(t, first.GetDigest(), other.GetDigest())
	elsewhere, status, err := d.apply(func(in *request) { in.BusinessTaskIds, in.Project = []string{"a", "b"}, "second" })
	require.NoError(t, err)
	require.Equal(t, []string{"", first.GetDigest()}, []string{status, elsewhere.GetDigest()}, "another project gets its own application")
	require.NotEqual(t, first.GetId(), elsewhere.GetId())
}

func reordered() []byte {
	return []byte(`{"toolchain":{"python":"3.12"},"requirements":[{"gpus":8},{"note":"large"}],"recipe":"sft/tiny@1.0","purpose":{"share":0.50,"for":"<all> \u0026 more","seats":3},"version":"1.0","name":"support"}`)
}

func TestCreateSolutionApplication_concurrentIdenticalCreateOne(t *testing.T) {
	t.Parallel()
	d := open(t)
	const n = 12
	ids, statuses, errs := make([]string, n), make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		ctx, h := as(t, "usr_1", authn.ProjectEditor, "")
		wg.Go(func() {
			out, err := d.CreateSolutionApplication(ctx, validRequest())
			ids[i], statuses[i], errs[i] = out.GetId(), h.status(), err
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	made := 0
	for i := range n {
		require.Equal(t, ids[0], ids[i])
		if statuses[i] == "" {
			made++
		}
	}
	require.Equal(t, 1, made, "exactly one call returns 201")
	require.Equal(t, []int{1, 1, 1}, []int{d.count(`solution_application`), d.count(`solution`), d.count(`event WHERE subject_kind = 'solution_application'`)})
}

func TestCreateSolutionApplication_idempotencyKey(t *testing.T) {
	t.Parallel()
	d := open(t)
	call := func(key string, change ...func(*request)) (*registryv1.SolutionApplicationOut, string, error) {
		ctx, h := as(t, "usr_1", authn.ProjectEditor, key)
		out, err := d.CreateSolutionApplication(ctx, validRequest(change...))
		return out, h.status(), err
	}
	first, status, err := call("k")
	require.NoError(t, err)
	require.Empty(t, status)
	again, status, err := call("k")
	require.NoError(t, err)
	require.Empty(t, status, "the repeat returns 201 again")
	require.True(t, proto.Equal(first, again))
	_, status, err = call("l")
	require.NoError(t, err)
	require.Equal(t, "200", status)
	_, status, err = call("l")
	require.NoError(t, err)
	require.Equal(t, "200", status, "the repeat returns 200 again")
	_, _, err = call("k", func(in *request) { in.BusinessTaskIds = []string{"x"} })
	require.True(t, fault.HasCode(err, "idempotency_key") && fault.Is(err, fault.Conflict), "%v", err)
}

// A refused request must leave no rows in any table.
func TestCreateSolutionApplication_refusals(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.dataset("secret", "v1", true, "three")
	d.dataset("twin", "v1", false, "one")
	_, err := d.Pool.Exec(t.Context(), `UPDATE dataset_version SET digest = 'sha256:trainv1' WHERE id = 'dsv_twinv1'`)
	require.NoError(t, err)
	d.environment("endless", "v1", environment.Taskset{Digest: "sha256:e", Infinite: true})
	d.environment("old", "v1", environment.Taskset{Digest: "sha256:o", Count: 1})
	d.dataset("kept", "v1", false, "four")
	for _, sql := range []string{
		`UPDATE environment_version SET state = 'deprecated' WHERE id = 'envv_oldv1'`, `UPDATE dataset_version SET state = 'archived' WHERE id = 'dsv_keptv1'`,
		`INSERT INTO rubric_version (id, rubric_id, version, status, digest, content, created_at) VALUES ('d', 'rub_fair', 7, 'draft', 'd', '{}', now())`,
	} {
		_, err := d.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	d.recipe("0.9", "withdrawn", "sha256:r")
	for name, c := range map[string]struct {
		change func(*request)
		kind   fault.Kind
		code   string
		words  string
	}{
		"unknown model":       {func(in *request) { in.Bindings.Model = new("mdl/team/none@1") }, fault.Refused, "bindings", "bindings: no such reference: mdl/team/none@1"},
		"unknown version":     {func(in *request) { in.Bindings.Model = new("mdl/team/base@2") }, fault.Refused, "bindings", "mdl/team/base@2"},
		"malformed version":   {func(in *request) { in.Bindings.Model = new("mdl/team/base@01") }, fault.Refused, "bindings", "base@01"},
		"wrong kind":          {func(in *request) { in.Bindings.Model = new("ds/team/train@v1") }, fault.Refused, "bindings", "no such reference"},
		"no reference":        {func(in *request) { in.Bindings.Taskset = new("nonsense") }, fault.Refused, "bindings", "no such reference: nonsense"},
		"archived":            {func(in *request) { in.Bindings.TrainDataset = new("ds/team/kept@v1") }, fault.Refused, "bindings", "no such reference"},
		"deprecated":          {func(in *request) { in.Bindings.Taskset = new("env/team/old@v1") }, fault.Refused, "bindings", "no such reference"},
		"draft rubric":        {func(in *request) { in.Bindings.Rubric = new("rub/team/fair@7") }, fault.Refused, "bindings", "no such reference: rub/team/fair@7"},
		"validation is train": {func(in *request) { in.Bindings.ValidationDataset = new("ds/team/train@latest") }, fault.Refused, "validation_dataset", "validation_dataset: "},
		"same records":        {func(in *request) { in.Bindings.ValidationDataset = new("ds/team/twin@v1") }, fault.Refused, "validation_dataset", "ds/team/twin@v1"},
		"unknown recipe":      {func(in *request) { in.Solution = []byte(`{"name":"a","version":"1","recipe":"sft/none@1"}`) }, fault.Refused, "recipe", "sft/none@1"},
		"withdrawn recipe":    {func(in *request) { in.Solution = []byte(`{"name":"a","version":"1","recipe":"sft/tiny@0.9"}`) }, fault.Refused, "recipe", "sft/tiny@0.9"},
		"unknown solution":    {func(in *request) { in.Solution = []byte(`"none@1"`) }, fault.Refused, "solution", "project team has no solution none@1"},
		"too many tasks": {func(in *request) {
			in.Solution = []byte(`{"name":"a","version":"1","recipe":"sft/tiny@1.0","evaluation_tasks":13}`)
		}, fault.Refused, "evaluation_tasks", "requests 13 tasks; the taskset has 12"},
		"infinite taskset": {func(in *request) { in.Bindings.Taskset = new("env/team/endless@v1") }, fault.Refused, "evaluation_tasks", "infinite"},
		"unknown project":  {func(in *request) { in.Project = "nowhere" }, fault.Refused, "project", "no such project: nowhere"},
		"archived project": {func(in *request) { in.Project = "closed" }, fault.Conflict, "project_archived", "closed"},
	} {
		_, _, err := d.apply(c.change)
		require.True(t, fault.Is(err, c.kind) && fault.HasCode(err, c.code), "%s: %v", name, err)
		require.ErrorContains(t, err, c.words, name)
	}
	require.Zero(t, d.count(`solution_application`)+d.count(`solution`)+d.count(`audit`)+d.count(`event`))
	more, _, err := d.apply(func(in *request) {
		in.Solution, in.Bindings.Taskset = []byte(`{"name":"a","version":"1","recipe":"sft/tiny@1.0","evaluation_tasks":500}`), new("env/team/endless@v1")
	})
	require.NoError(t, err)
	require.EqualValues(t, 500, more.GetSnapshot().GetEvaluationTasks())
}

func TestCreateSolutionApplication_bindingPermissions(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.dataset("secret", "v1", true, "three")
	_, err := d.Pool.Exec(t.Context(), `UPDATE dataset SET visibility = 'all' WHERE name IN ('secret', 'train', 'held')`)
	require.NoError(t, err)
	stranger := func(change func(*request)) error {
		ctx, _ := as(t, "usr_9", "", "")
		_, err := d.CreateSolutionApplication(ctx, validRequest(func(in *request) { in.Project = "default" }, change))
		return err
	}
	hidden, absent := stranger(func(*request) {}), stranger(func(in *request) { in.Bindings.Model = new("mdl/team/none@1") })
	require.True(t, fault.Is(hidden, fault.Refused), "%v", hidden)
	require.Equal(t, strings.ReplaceAll(fault.From(absent).Text(), "env/team/math@v1", "x"), strings.ReplaceAll(fault.From(hidden).Text(), "env/team/math@v1", "x"),
		"hidden and absent references give the same error")
	for _, table := range []string{"model", "environment", "rubric"} {
		_, err := d.Pool.Exec(t.Context(), `UPDATE `+table+` SET visibility = 'all'`)
		require.NoError(t, err)
	}
	require.NoError(t, stranger(func(*request) {}))
	err = stranger(func(in *request) { in.Bindings.TrainDataset = new("ds/team/secret@v1") })
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "bindings"), "%v", err)
	require.Equal(t, "bindings: you may not read ds/team/secret@v1", fault.From(err).Text())
	_, _, err = d.apply(func(in *request) { in.Bindings.TrainDataset = new("ds/team/secret@v1") })
	require.NoError(t, err, "editors of its project may bind a protected dataset")
	ctx, _ := as(t, "usr_9", authn.ProjectViewer, "")
	_, err = d.CreateSolutionApplication(ctx, validRequest())
	require.True(t, fault.Is(err, fault.Forbidden), "viewers may not create applications: %v", err)
}
