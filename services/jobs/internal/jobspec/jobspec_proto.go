package jobspec

import (
	"errors"
	"fmt"
	"slices"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// FromProto converts a submitted spec and sets its defaults. The seed remains unset: it is chosen when the submission
// is admitted.
func FromProto(m *jobsv1.JobSpec) (Spec, error) {
	s := Spec{
		Name: m.GetName(), Project: or(m.GetProject(), DefaultProject), Labels: notNil(m.GetLabels()), Notes: m.GetNotes(),
		Source: Source{
			Entrypoint: m.GetSource().GetEntrypoint(), Command: append([]string{}, m.GetSource().GetCommand()...), Package: m.GetSource().GetPackage(),
		},
		Recipe:   RecipeRef{Name: m.GetRecipe().GetName(), Version: m.GetRecipe().GetVersion(), Lock: lockFromProto(m.GetRecipe().GetLock())},
		Hparams:  m.GetHparams(),
		Bindings: Bindings{Datasets: notNil(m.GetBindings().GetDatasets()), Model: m.GetBindings().GetModel()},
		Env:      notNil(m.GetEnv()), Priority: DefaultPriority, Seed: m.Seed,
		Limits:     Limits{RunningS: defaultRunningS, StartingS: defaultStartS, QueuedS: defaultQueuedS},
		Retry:      retryFromProto(m.GetRetry()),
		Checkpoint: Checkpoint{GraceS: defaultGraceS, RequiredForPause: true},
		Network:    m.GetNetwork(),
	}
	if m.GetImage() != nil {
		s.Image = &Image{Ref: m.GetImage().GetRef()}
	}
	if len(s.Hparams) == 0 {
		s.Hparams = []byte("{}")
	}
	if m.Priority != nil {
		s.Priority = int(m.GetPriority())
	}
	if l := m.GetLimits(); l != nil {
		fill(&s.Limits.RunningS, l.RunningS)
		fill(&s.Limits.StartingS, l.StartingS)
		fill(&s.Limits.QueuedS, l.QueuedS)
	}
	if c := m.GetCheckpoint(); c != nil {
		fill(&s.Checkpoint.GraceS, c.GraceS)
		s.Checkpoint.RequiredForPause = c.RequiredForPause == nil || c.GetRequiredForPause()
		fill(&s.Checkpoint.KeepLast, c.KeepLast)
		s.Checkpoint.KeepBest, s.Checkpoint.KeepBestGoal = c.GetKeepBest(), c.GetKeepBestGoal()
		if s.Checkpoint.KeepBest != "" {
			s.Checkpoint.KeepLast = max(s.Checkpoint.KeepLast, 1)
		}
	}
	for _, p := range m.GetResources().GetPools() {
		s.Resources.Pools = append(s.Resources.Pools, poolFromProto(p))
	}
	s.Runtime = runtimeFromProto(m.GetRuntime())
	if err := errors.Join(checkNetwork(&s), checkRuntime(&s), checkKeeping(&s)); err != nil {
		return s, err
	}
	return s, checkSeed(&s)
}

// Override replaces a field of the spec for each field that is set in a clone request.
func Override(s *Spec, m *jobsv1.CloneJobRequest) error {
	s.Name, s.Project = or(m.GetName(), s.Name), or(m.GetProject(), s.Project)
	if len(m.GetHparams()) > 0 {
		s.Hparams = m.GetHparams()
	}
	fill(&s.Priority, m.Priority)
	if m.Seed != nil {
		s.Seed = m.Seed
	}
	return checkSeed(s)
}

func checkSeed(s *Spec) error {
	if s.Seed == nil || *s.Seed <= maxSeed {
		return nil
	}
	return fault.InvalidFields(fault.Field{
		Loc: []any{"spec", "seed"}, Type: fault.TypeLessThanEqual, Input: *s.Seed,
		Msg: "Input should be less than or equal to 9007199254740991", Ctx: map[string]any{"le": maxSeed},
	})
}

// checkNetwork rejects a job that has several nodes but no network, because its nodes could not reach each other.
func checkNetwork(s *Spec) error {
	nodes := 0
	for _, p := range s.Resources.Pools {
		nodes += p.Nodes
	}
	if s.Network != NetworkNone || nodes == 1 {
		return nil
	}
	return fault.InvalidFields(fault.Field{
		Loc: []any{"spec", "network"}, Type: fault.TypeValue, Input: s.Network,
		Msg: fmt.Sprintf("Value error, a job without a network has 1 node, and this one requests %d; request 1 node, or leave network empty", nodes),
	})
}

// checkKeeping rejects a goal without the metric to which it belongs.
func checkKeeping(s *Spec) error {
	if s.Checkpoint.KeepBest != "" || s.Checkpoint.KeepBestGoal == "" {
		return nil
	}
	return fault.InvalidFields(fault.Field{
		Loc: []any{"spec", "checkpoint", "keep_best_goal"}, Type: fault.TypeValue, Input: s.Checkpoint.KeepBestGoal,
		Msg: "Value error, a goal needs a metric; set keep_best to the key of a metric, or leave keep_best_goal empty",
	})
}

func retryFromProto(m *jobsv1.Retry) Retry {
	r := Retry{
		Max: defaultRetries, On: slices.Sorted(slices.Values(m.GetOn())), ExitCodes: append([]int32{}, m.GetExitCodes()...),
		BackoffS: defaultBackoffS, Resume: or(m.GetResume(), job.ResumeLatest),
	}
	if len(r.On) == 0 {
		r.On = []string{job.RetryInfra, job.RetryPreempted}
	}
	if m != nil {
		fill(&r.Max, m.Max)
		fill(&r.BackoffS, m.BackoffS)
	}
	return r
}

func poolFromProto(m *jobsv1.PoolRequest) job.Pool {
	p := job.Pool{Pool: m.GetPool(), Role: or(m.GetRole(), defaultRole), Nodes: 1, Profile: m.GetProfile()}
	fill(&p.Nodes, m.Nodes)
	fill(&p.GPUsPerNode, m.GpusPerNode)
	fill(&p.CPU, m.Cpu)
	fill(&p.MemoryGB, m.MemoryGb)
	return p
}

func lockFromProto(m *jobsv1.RecipeLock) Lock {
	return Lock{
		API: m.GetApi(), Name: m.GetName(), Version: m.GetVersion(), Digest: m.GetDigest(),
		Framework: Framework{
			Name: m.GetFramework().GetName(), RuntimeID: m.GetFramework().GetRuntimeId(), Image: m.GetFramework().GetImage(),
		},
		ParamsSchemaDigest: m.GetParamsSchemaDigest(), CatalogDigest: m.GetCatalogDigest(), LockedAt: m.GetLockedAt(),
	}
}

func fill(into *int, set *int32) {
	if set != nil {
		*into = int(*set)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
