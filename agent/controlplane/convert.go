package controlplane

import (
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// fromWork decodes a desired work. It returns an error for an unknown desired state, and for an unknown kind if the
// desired state is running. Even with an error, the returned work has its key.
func fromWork(p *jobsv1.Work) (executor.Work, error) {
	w := executor.Work{Key: executor.Key{WorkID: p.GetWorkId(), Generation: p.GetGeneration(), Fence: p.GetFence()}}
	w.Force = p.GetForce()
	switch p.GetDesired() {
	case jobsv1.Desired_DESIRED_RUNNING:
		w.Desired = executor.DesiredRunning
	case jobsv1.Desired_DESIRED_STOPPED:
		w.Desired = executor.DesiredStopped
	case jobsv1.Desired_DESIRED_GONE:
		w.Desired = executor.DesiredGone
	default:
		return w, fmt.Errorf("work %s: unknown desired state %d", w.Key, p.GetDesired())
	}
	if p.GetDeadline().IsValid() {
		w.Deadline = p.GetDeadline().AsTime()
	}
	switch p.GetKind() {
	case jobsv1.WorkKind_WORK_KIND_ATTEMPT:
		w.Kind = executor.KindAttempt
	case jobsv1.WorkKind_WORK_KIND_ENGINE:
		w.Kind = executor.KindEngine
	default:
		if w.Desired == executor.DesiredRunning {
			return w, fmt.Errorf("work %s: unknown kind %d", w.Key, p.GetKind())
		}
	}
	if a := p.GetAttempt(); a != nil {
		w.Attempt = fromAttempt(a)
	}
	if e := p.GetEngine(); e != nil {
		w.Engine = fromEngine(e)
	}
	return w, nil
}

func fromAttempt(p *jobsv1.AttemptSpec) *executor.AttemptSpec {
	a := &executor.AttemptSpec{
		JobID: p.GetJobId(), RunID: p.GetRunId(), Attempt: int(p.GetAttempt()), Recipe: p.GetRecipe(),
		RecipeVersion: p.GetRecipeVersion(), RecipeDigest: p.GetRecipeDigest(), Environment: fromEnvironment(p.GetEnvironment()),
		Command: p.GetCommand(), Hparams: p.GetHparams(), Env: p.GetEnv(), Seed: p.GetSeed(),
		IngestEndpoint: p.GetIngestEndpoint(), Limits: fromLimits(p.GetLimits()), Grace: seconds(p.GetGraceS()),
		NoNetwork: p.GetNoNetwork(),
	}
	if o := p.GetPackage(); o != nil {
		ref := fromObject(o)
		a.Package = &ref
	}
	a.Batch = fromBatch(p.GetBatch())
	for _, d := range p.GetDatasets() {
		a.Datasets = append(a.Datasets, executor.DatasetInput{
			Name: d.GetName(), Ref: d.GetRef(), Digest: d.GetDigest(), Files: fromObjects(d.GetFiles()),
		})
	}
	if m := p.GetModel(); m != nil {
		a.Model = &executor.ModelInput{Ref: m.GetRef(), Digest: m.GetDigest(), Files: fromObjects(m.GetFiles())}
	}
	if r := p.GetResume(); r != nil {
		a.Resume = &executor.ResumePoint{ArtifactID: r.GetArtifactId(), Step: r.Step, File: fromObject(r.GetFile())}
	}
	return a
}

func fromEngine(p *jobsv1.EngineSpec) *executor.EngineSpec {
	return &executor.EngineSpec{
		DeploymentID: p.GetDeploymentId(), RevisionID: p.GetRevisionId(), RevisionNumber: int(p.GetRevisionNumber()),
		Driver: p.GetDriver(), Model: fromObjects(p.GetModel()), ModelDigest: p.GetModelDigest(),
		ServedNames: p.GetServedNames(), Command: p.GetCommand(), Environment: fromEnvironment(p.GetEnvironment()),
		Args: p.GetArgs(), Task: p.GetTask(), Limits: fromLimits(p.GetLimits()), ProbeDeadline: seconds(p.GetProbeDeadlineS()),
	}
}

func fromEnvironment(p *jobsv1.EnvironmentSpec) executor.EnvironmentSpec {
	return executor.EnvironmentSpec{
		Requirements: p.GetRequirements(), Digest: p.GetDigest(), SDK: p.GetSdk(), Lock: p.GetLock(), Python: p.GetPython(), Project: p.GetProject(),
	}
}

func fromLimits(p *jobsv1.ResourceLimits) executor.Limits {
	return executor.Limits{
		CPUs: int(p.GetCpus()), MemoryBytes: p.GetMemoryBytes(), PIDs: int(p.GetPids()), GPUs: int(p.GetGpus()),
	}
}

func fromObjects(ps []*jobsv1.ObjectRef) []executor.ObjectRef {
	refs := make([]executor.ObjectRef, 0, len(ps))
	for _, p := range ps {
		refs = append(refs, fromObject(p))
	}
	return refs
}

func fromObject(p *jobsv1.ObjectRef) executor.ObjectRef {
	return executor.ObjectRef{
		Path: p.GetPath(), URI: p.GetUri(), SizeBytes: p.GetSizeBytes(), SHA256: p.GetSha256(), Unpack: p.GetUnpack(),
	}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

func toObserved(all []executor.Observation) *jobsv1.ObservedWorks {
	p := &jobsv1.ObservedWorks{}
	for _, o := range all {
		p.Works = append(p.Works, toObservation(o))
	}
	return p
}

func toObservation(o executor.Observation) *jobsv1.ObservedWork {
	p := &jobsv1.ObservedWork{
		WorkId: o.WorkID, Generation: o.Generation, Fence: o.Fence, Phase: toPhase(o.Phase), Detail: o.Detail,
		PreparingAt: request.NonZeroTime(o.PreparingAt), RunningAt: request.NonZeroTime(o.RunningAt), ExitedAt: request.NonZeroTime(o.ExitedAt),
		Uncollected: o.Uncollected, Batch: toBatchReport(o.Batch),
	}
	if e := o.Exit; e != nil {
		p.Exit = &jobsv1.Exit{
			Code: int32(e.Code), Signal: int32(e.Signal), Reason: string(e.Reason), Message: e.Message,
		}
	}
	if e := o.Engine; e != nil {
		p.Engine = toReport(e)
	}
	return p
}

func toReport(e *executor.EngineReport) *jobsv1.EngineReport {
	return &jobsv1.EngineReport{
		Address: e.Address, ApiKey: e.APIKey.Reveal(), Pid: int32(e.PID), Ready: e.Ready, Phase: string(e.Phase),
		Code: string(e.Code), Message: e.Message, Probes: e.Probes, ReadyAt: request.NonZeroTime(e.ReadyAt),
		Restarts: int32(e.Restarts), LogExcerpt: e.LogExcerpt,
	}
}

func toPhase(p executor.Phase) jobsv1.Phase {
	switch p {
	case executor.PhasePending:
		return jobsv1.Phase_PHASE_PENDING
	case executor.PhasePreparing:
		return jobsv1.Phase_PHASE_PREPARING
	case executor.PhaseRunning:
		return jobsv1.Phase_PHASE_RUNNING
	case executor.PhaseCollecting:
		return jobsv1.Phase_PHASE_COLLECTING
	case executor.PhaseExited:
		return jobsv1.Phase_PHASE_EXITED
	case executor.PhaseGone:
		return jobsv1.Phase_PHASE_GONE
	}
	return jobsv1.Phase_PHASE_UNSPECIFIED
}
