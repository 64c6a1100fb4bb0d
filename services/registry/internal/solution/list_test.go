package solution_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/solution"
)

func TestListSolutionApplications_pages(t *testing.T) {
	t.Parallel()
	d := open(t)
	for n := range 2*solution.PageSize + 1 {
		if n%3 == 0 {
			d.clock.Advance(time.Second)
		}
		_, _, err := d.apply(func(in *request) { in.BusinessTaskIds = []string{fmt.Sprint(n)} })
		require.NoError(t, err)
	}
	ctx, _ := as(t, "usr_1", authn.ProjectViewer, "")
	page := func(offset *int32) (tasks []string, more bool, err error) {
		out, err := d.ListSolutionApplications(ctx, &registryv1.ListSolutionApplicationsRequest{Offset: offset})
		for _, a := range out.GetItems() {
			tasks = append(tasks, a.GetSnapshot().GetBusinessTaskIds()[0])
		}
		return tasks, out.GetHasMore(), err
	}
	var all []string
	for _, c := range []struct {
		offset *int32
		n      int
		more   bool
	}{{nil, 50, true}, {new(int32(50)), 50, true}, {new(int32(100)), 1, false}, {new(int32(101)), 0, false}, {new(int32(100_000)), 0, false}} {
		got, more, err := page(c.offset)
		require.NoError(t, err)
		require.Len(t, got, c.n)
		require.Equal(t, c.more, more)
		all = append(all, got...)
	}
	for n, task := range all {
		require.Equal(t, fmt.Sprint(len(all)-1-n), task, "newest first, also if created at the same time")
	}
	got, more, err := page(new(int32(51)))
	require.NoError(t, err)
	require.Equal(t, []any{50, false}, []any{len(got), more}, "no page follows the last full page")
	for _, bad := range []int32{-1, 100_001} {
		_, _, err := page(&bad)
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
		require.Equal(t, []any{"offset"}, fault.From(err).Fields[0].Loc)
	}
	stranger, _ := as(t, "usr_9", "", "")
	out, err := d.ListSolutionApplications(stranger, &registryv1.ListSolutionApplicationsRequest{})
	require.NoError(t, err)
	require.Empty(t, out.GetItems())
}

func TestSolutionApplication_hiddenLooksAbsent(t *testing.T) {
	t.Parallel()
	d := open(t)
	a, _, err := d.apply()
	require.NoError(t, err)
	stranger, _ := as(t, "usr_9", "", "")
	const unknown = "sap_01k00000000000000000000077"
	for name, call := range map[string]func(string) error{
		"get": func(at string) error {
			_, err := d.GetSolutionApplication(stranger, &registryv1.GetSolutionApplicationRequest{ApplicationId: at})
			return err
		},
		"status": func(at string) error {
			_, err := d.GetSolutionApplicationStatus(stranger, &registryv1.GetSolutionApplicationStatusRequest{ApplicationId: at})
			return err
		},
	} {
		hidden, absent := call(a.GetId()), call(unknown)
		require.True(t, fault.Is(hidden, fault.Absent) && fault.Is(absent, fault.Absent), "%s: %v", name, hidden)
		require.Equal(t, "no such solution application: "+a.GetId(), fault.From(hidden).Text())
		require.Equal(t, "no such solution application: "+unknown, fault.From(absent).Text())
		require.True(t, fault.Is(call("sap_1"), fault.Invalid))
	}
}

func TestGetSolutionApplicationStatus_drift(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.dataset("shared", "v1", false, "one", "nine")
	a, _, err := d.apply(func(in *request) { in.Bindings.ValidationDataset = new("ds/team/shared@v1") })
	require.NoError(t, err)
	status := func(subject, role string) (*registryv1.SolutionApplicationStatus, map[string]string) {
		ctx, _ := as(t, subject, role, "")
		out, err := d.GetSolutionApplicationStatus(ctx, &registryv1.GetSolutionApplicationStatusRequest{ApplicationId: a.GetId()})
		require.NoError(t, err)
		states := map[string]string{}
		for _, b := range out.GetBindings() {
			states[b.GetName()] = b.GetState()
		}
		return out, states
	}
	out, states := status("usr_1", authn.ProjectEditor)
	all := func(s string) map[string]string {
		return map[string]string{"model": s, "train_dataset": s, "validation_dataset": s, "taskset": s, "rubric": s, "recipe": s}
	}
	require.Equal(t, all("current"), states)
	require.False(t, out.GetDrifted())
	require.Equal(t, []string{"overlap: 1 of the 2 files of the validation dataset are also in the train dataset"}, out.GetWarnings())

	d.clock.Advance(time.Hour)
	d.dataset("train", "v2", false, "five")
	d.rubric("another", 1)
	d.recipe("1.1", "active", "sha256:recipe-2")
	for _, sql := range []string{
		`UPDATE model_version SET lifecycle = 'archived'`, `UPDATE environment SET deleted_at = now()`, `UPDATE dataset SET protected = true WHERE name = 'shared'`,
		`UPDATE rubric_version SET digest = 'sha256:else' WHERE rubric_id = 'rub_fair'`,
	} {
		_, err := d.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	out, states = status("usr_1", authn.ProjectEditor)
	require.Equal(t, map[string]string{
		"model": "archived", "train_dataset": "newer_version", "validation_dataset": "current", "taskset": "unknown", "rubric": "changed", "recipe": "newer_version",
	}, states)
	require.True(t, out.GetDrifted())
	require.Equal(t, "ds/team/train@v2", out.GetBindings()[1].GetLatest())
	require.Equal(t, "sft/tiny@1.1", out.GetBindings()[5].GetLatest())
	_, states = status("usr_3", authn.ProjectViewer)
	require.Equal(t, "unreadable", states["validation_dataset"], "the status uses the caller's permissions")
	_, err = d.Pool.Exec(t.Context(), `UPDATE solution_application SET visibility = 'all'`)
	require.NoError(t, err)
	d.recipe("1.0", "withdrawn", "sha256:recipe-1")
	_, err = d.Pool.Exec(t.Context(), `UPDATE recipe SET state = 'withdrawn', manifest = replace(manifest, '"active"', '"withdrawn"') WHERE version = '1.0'`)
	require.NoError(t, err)
	_, states = status("usr_9", "")
	require.Equal(t, map[string]string{
		"model": "unknown", "train_dataset": "unknown", "validation_dataset": "unknown", "taskset": "unknown", "rubric": "unknown", "recipe": "archived",
	}, states, "hidden bindings are reported as unknown")
}

func TestSolutionApplication_snapshotIsImmutable(t *testing.T) {
	t.Parallel()
	d := open(t)
	a, _, err := d.apply()
	require.NoError(t, err)
	d.recipe("1.0", "active", "sha256:recipe-9")
	_, err = d.Pool.Exec(t.Context(), `UPDATE rubric_version SET digest = 'sha256:else'`)
	require.NoError(t, err)
	ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
	got, err := d.GetSolutionApplication(ctx, &registryv1.GetSolutionApplicationRequest{ApplicationId: a.GetId()})
	require.NoError(t, err)
	require.Equal(t, a.GetSnapshot().GetRecipeDigest(), got.GetSnapshot().GetRecipeDigest())
	require.Equal(t, a.GetDigest(), got.GetDigest())
	next, status, err := d.apply()
	require.NoError(t, err)
	require.Empty(t, status, "a changed catalog entry makes another application")
	require.NotEqual(t, a.GetDigest(), next.GetDigest())
}
