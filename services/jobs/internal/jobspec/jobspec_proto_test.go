package jobspec

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func fullSpec() *jobsv1.JobSpec {
	seed := int64(7)
	return &jobsv1.JobSpec{
		Name: "n", Project: "p", Labels: map[string]string{"a": "b"}, Notes: "x",
		Source: &jobsv1.Source{Package: "pkg_1", Entrypoint: "e", Command: []string{"c"}},
		Recipe: &jobsv1.RecipeRef{Name: "r/n", Version: "1", Lock: &jobsv1.RecipeLock{
			Api: "service/v1", Name: "r/n", Version: "1", Digest: "sha256:d", ParamsSchemaDigest: "ps", CatalogDigest: "cd", LockedAt: "t",
			Framework: &jobsv1.RecipeLockFramework{Name: "f", RuntimeId: "rt", Image: "i"},
		}},
		Image: &jobsv1.Image{Ref: "ghcr.io/a"}, Hparams: []byte(`{"b":2,"a":1}`),
		Bindings:  &jobsv1.Bindings{Datasets: map[string]string{"train": "ds/p/n@1"}, Model: "mdl/p/n@1"},
		Resources: &jobsv1.Resources{Pools: []*jobsv1.PoolRequest{{Pool: "gpu", Role: "r", Nodes: new(int32(1)), GpusPerNode: new(int32(4)), Cpu: new(int32(8)), MemoryGb: new(int32(16)), Profile: "big"}}},
		Env:       map[string]string{"K": "V"}, Priority: new(int32(0)), Seed: &seed,
		Retry:      &jobsv1.Retry{Max: new(int32(0)), On: []string{"infra"}, ExitCodes: []int32{33}, BackoffS: new(int32(5)), Resume: "none"},
		Checkpoint: &jobsv1.CheckpointPolicy{GraceS: new(int32(9)), RequiredForPause: new(false), KeepLast: new(int32(2)), KeepBest: "val/loss", KeepBestGoal: "minimize"},
		Limits:     &jobsv1.Limits{RunningS: new(int32(1)), StartingS: new(int32(2)), QueuedS: new(int32(3))},
		Network:    "none",
	}
}

// names lists the fields of a message and of its nested messages as JSON paths, and those that are unset.
func names(m protoreflect.Message, prefix string) (all, unset []string) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		path := prefix + string(f.Name())
		all = append(all, path)
		if !m.Has(f) {
			unset = append(unset, path)
			continue
		}
		switch {
		case f.IsMap() || f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			more, open := names(m.Get(f).List().Get(0).Message(), path+".0.")
			all, unset = append(all, more...), append(unset, open...)
		default:
			more, open := names(m.Get(f).Message(), path+".")
			all, unset = append(all, more...), append(unset, open...)
		}
	}
	return all, unset
}

// paths lists the members of a JSON document as JSON paths, in the form that the function names uses.
func paths(v any, prefix string, stop map[string]bool) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			out = append(out, prefix+name)
			if !stop[prefix+name] {
				out = append(out, paths(inner, prefix+name+".", stop)...)
			}
		}
	case []any:
		if len(v) > 0 {
			out = append(out, paths(v[0], prefix+"0.", stop)...)
		}
	}
	return out
}

func TestFromProtoKeepsEveryField(t *testing.T) {
	t.Parallel()
	m := fullSpec()
	all, unset := names(m.ProtoReflect(), "")
	// A runtime excludes an image: see TestFromProto_runtime.
	without := func(s string) bool { return s == "runtime" }
	all, unset = slices.DeleteFunc(all, without), slices.DeleteFunc(unset, without)
	require.Equal(t, []string{"priority", "retry.max"}, intersect(unset, []string{"priority", "retry.max"}, all),
		"fields with presence that hold zero count as set")
	spec, err := FromProto(m)
	require.NoError(t, err)
	form, digest, err := spec.Canonical()
	require.NoError(t, err)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, digest)
	var doc any
	require.NoError(t, json.Unmarshal(form, &doc))
	free := map[string]bool{"labels": true, "hparams": true, "env": true, "bindings.datasets": true}
	require.ElementsMatch(t, all, paths(doc, "", free), "the stored spec must have the API's fields under the same names")
	require.Equal(t, 0, spec.Priority)
	require.Equal(t, Retry{Max: 0, On: []string{"infra"}, ExitCodes: []int32{33}, BackoffS: 5, Resume: "none"}, spec.Retry)
	require.Equal(t, Checkpoint{GraceS: 9, KeepLast: 2, KeepBest: "val/loss", KeepBestGoal: GoalMinimize}, spec.Checkpoint)
	require.Equal(t, job.Pool{Pool: "gpu", Role: "r", Nodes: 1, GPUsPerNode: 4, CPU: 8, MemoryGB: 16, Profile: "big"}, spec.Resources.Pools[0])
}

// intersect returns the fields that fullSpec sets to 0, which are in the parameter zero, if they contain all unset
// fields and no unknown ones. Otherwise it returns a message.
func intersect(unset, zero, all []string) []string {
	for _, u := range unset {
		if !slices.Contains(zero, u) {
			return []string{"not filled in: " + u}
		}
	}
	for _, z := range zero {
		if !slices.Contains(all, z) {
			return []string{"unknown: " + z}
		}
	}
	return zero
}

func TestFromProtoDefaults(t *testing.T) {
	t.Parallel()
	spec, err := FromProto(&jobsv1.JobSpec{Name: "n", Resources: &jobsv1.Resources{Pools: []*jobsv1.PoolRequest{{Pool: "cpu"}}}})
	require.NoError(t, err)
	require.Equal(t, "default", spec.Project)
	require.Equal(t, 50, spec.Priority)
	require.Equal(t, Limits{RunningS: 86400, StartingS: 3600, QueuedS: 604800}, spec.Limits)
	require.Equal(t, Retry{Max: 3, On: []string{"infra", "preempted"}, ExitCodes: []int32{}, BackoffS: 1, Resume: "latest"}, spec.Retry)
	require.Equal(t, Checkpoint{GraceS: 300, RequiredForPause: true}, spec.Checkpoint)
	require.Equal(t, []job.Pool{{Pool: "cpu", Role: "trainer", Nodes: 1}}, spec.Resources.Pools)
	require.Equal(t, "{}", string(spec.Hparams))
	require.Nil(t, spec.Image)
	require.Nil(t, spec.Seed)
}

func TestSpec_Canonical_equalSpecs(t *testing.T) {
	t.Parallel()
	one, err := FromProto(fullSpec())
	require.NoError(t, err)
	reordered := fullSpec()
	reordered.Hparams = []byte(` {"a": 1.0, "b": 2}`)
	two, err := FromProto(reordered)
	require.NoError(t, err)
	_, first, err := one.Canonical()
	require.NoError(t, err)
	_, second, err := two.Canonical()
	require.NoError(t, err)
	require.Equal(t, first, second)
	reordered.Hparams = []byte(`{"a":1,"b":3}`)
	three, err := FromProto(reordered)
	require.NoError(t, err)
	_, third, err := three.Canonical()
	require.NoError(t, err)
	require.NotEqual(t, first, third)
}

func TestFromProto_networkOfSeveralNodes(t *testing.T) {
	t.Parallel()
	m := fullSpec()
	m.Resources.Pools = append(m.Resources.Pools, &jobsv1.PoolRequest{Pool: "cpu"})
	_, err := FromProto(m)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.Contains(t, fault.From(err).Fields[0].Msg, "a job without a network has 1 node, and this one requests 2; request 1 node, or leave network empty")
	require.Equal(t, []any{"spec", "network"}, fault.From(err).Fields[0].Loc)
	m.Network = ""
	spec, err := FromProto(m)
	require.NoError(t, err)
	form, _, err := spec.Canonical()
	require.NoError(t, err)
	require.NotContains(t, string(form), "network", "the form of a job with network access must be that of earlier releases")
}

func TestFromProtoSeedTooLarge(t *testing.T) {
	t.Parallel()
	m := fullSpec()
	seed := int64(1) << 53
	m.Seed = &seed
	_, err := FromProto(m)
	f := fault.From(err)
	require.Equal(t, fault.Invalid, f.Kind)
	require.Equal(t, []any{"spec", "seed"}, f.Fields[0].Loc)
}

func TestFromProto_keepBest(t *testing.T) {
	t.Parallel()
	m := fullSpec()
	m.Checkpoint = &jobsv1.CheckpointPolicy{KeepBest: "val/loss"}
	spec, err := FromProto(m)
	require.NoError(t, err)
	require.Equal(t, Checkpoint{GraceS: 300, RequiredForPause: true, KeepLast: 1, KeepBest: "val/loss"}, spec.Checkpoint, "the newest is always kept")
	m.Checkpoint = &jobsv1.CheckpointPolicy{KeepBestGoal: "minimize"}
	_, err = FromProto(m)
	require.Equal(t, []any{"spec", "checkpoint", "keep_best_goal"}, fault.From(err).Fields[0].Loc, "a goal without a metric has no meaning")

	m.Checkpoint = nil
	spec, err = FromProto(m)
	require.NoError(t, err)
	form, _, err := spec.Canonical()
	require.NoError(t, err)
	require.NotContains(t, string(form), "keep_", "the form of a spec of an earlier release does not change")
	spec = Spec{}
	spec.Complete()
	require.Zero(t, spec.Checkpoint.KeepLast, "all checkpoints of a job of an earlier release are kept")
}
