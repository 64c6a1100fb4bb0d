package assignment

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"strconv"

	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// headToProto converts a work without its spec.
func headToProto(w *Work) *jobsv1.Work {
	return &jobsv1.Work{
		WorkId: w.ID, Generation: w.Generation, Fence: w.Fence, Kind: kindToProto(w.Kind), Desired: desiredToProto(w.Desired), Force: w.Force,
		Deadline: request.OptionalTime(w.Deadline),
	}
}

func toProto(w *Work, ingestEndpoint string) (*jobsv1.Work, error) {
	m := headToProto(w)
	if w.Kind == Engine {
		spec := &jobsv1.EngineSpec{}
		if err := proto.Unmarshal(w.Spec, spec); err != nil {
			return nil, fmt.Errorf("decode the spec of engine %s: %w", w.ID, err)
		}
		m.Spec = &jobsv1.Work_Engine{Engine: spec}
		return m, nil
	}
	spec := &jobsv1.AttemptSpec{}
	if err := proto.Unmarshal(w.Spec, spec); err != nil {
		return nil, fmt.Errorf("decode the spec of work %s: %w", w.ID, err)
	}
	spec.Attempt = int32(w.Number)
	spec.IngestEndpoint = ingestEndpoint
	limits := &jobsv1.ResourceLimits{}
	proto.Merge(limits, spec.GetLimits())
	if batch := spec.GetBatch(); batch != nil {
		spec.Env, limits.Gpus = batchEnv(w, spec.GetEnv()), mostGPUs(batch)
	} else {
		spec.Env, limits.Gpus = attemptEnv(w, spec.GetEnv()), int32(w.GPUs)
	}
	spec.Limits = limits
	m.Spec = &jobsv1.Work_Attempt{Attempt: spec}
	return m, nil
}

// Resumed returns the spec of an attempt that resumes from the given checkpoint. Without a checkpoint, it returns the
// template unchanged.
func Resumed(template []byte, from *job.Checkpoint) ([]byte, error) {
	if from == nil {
		return template, nil
	}
	spec := &jobsv1.AttemptSpec{}
	if err := proto.Unmarshal(template, spec); err != nil {
		return nil, fmt.Errorf("decode the spec template of a job: %w", err)
	}
	spec.Resume = &jobsv1.ResumePoint{ArtifactId: from.ArtifactID, Step: from.Step, File: &jobsv1.ObjectRef{
		Path: path.Base(from.URI), Uri: from.URI, SizeBytes: from.Size, Sha256: from.SHA256, Unpack: from.Packed,
	}}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec of an attempt: %w", err)
	}
	return raw, nil
}

// attemptEnv returns the user's environment and, in addition, the variables that describe the rank and its gang.
func attemptEnv(w *Work, user map[string]string) map[string]string {
	env := make(map[string]string, len(user)+6)
	maps.Copy(env, user)
	env["SERVICE_JOB_ROLE"] = w.Role
	env["SERVICE_JOB_NODE_RANK"] = strconv.Itoa(w.Rank)
	env["SERVICE_JOB_NNODES"] = strconv.Itoa(w.NNodes)
	env["SERVICE_JOB_GPUS_PER_NODE"] = strconv.Itoa(w.GPUs)
	env["SERVICE_JOB_MASTER_ADDR"] = w.Master
	env["SERVICE_JOB_MASTER_PORT"] = strconv.Itoa(cmp.Or(w.MasterPort, firstMasterPort))
	return env
}

func gone(k Key) *jobsv1.Work {
	return &jobsv1.Work{WorkId: k.ID, Generation: k.Generation, Fence: k.Fence, Desired: jobsv1.Desired_DESIRED_GONE}
}

func kindToProto(k Kind) jobsv1.WorkKind {
	if k == Engine {
		return jobsv1.WorkKind_WORK_KIND_ENGINE
	}
	return jobsv1.WorkKind_WORK_KIND_ATTEMPT
}

func desiredToProto(d Desired) jobsv1.Desired {
	switch d {
	case WantRunning:
		return jobsv1.Desired_DESIRED_RUNNING
	case WantStopped:
		return jobsv1.Desired_DESIRED_STOPPED
	case WantGone:
		return jobsv1.Desired_DESIRED_GONE
	}
	return jobsv1.Desired_DESIRED_UNSPECIFIED
}

func desiredFromProto(d jobsv1.Desired) (Desired, bool) {
	switch d {
	case jobsv1.Desired_DESIRED_RUNNING:
		return WantRunning, true
	case jobsv1.Desired_DESIRED_STOPPED:
		return WantStopped, true
	case jobsv1.Desired_DESIRED_GONE:
		return WantGone, true
	case jobsv1.Desired_DESIRED_UNSPECIFIED:
	}
	return "", false
}

func phaseFromProto(p jobsv1.Phase) string {
	switch p {
	case jobsv1.Phase_PHASE_PENDING:
		return gang.PhasePending
	case jobsv1.Phase_PHASE_PREPARING:
		return gang.PhasePreparing
	case jobsv1.Phase_PHASE_RUNNING:
		return gang.PhaseRunning
	case jobsv1.Phase_PHASE_COLLECTING:
		return gang.PhaseCollecting
	case jobsv1.Phase_PHASE_EXITED:
		return gang.PhaseExited
	case jobsv1.Phase_PHASE_GONE:
		return gang.PhaseGone
	case jobsv1.Phase_PHASE_UNSPECIFIED:
	}
	return gang.PhaseNone
}

func phaseToProto(phase string) jobsv1.Phase {
	return jobsv1.Phase(gang.PhaseRank(phase))
}

// maxMessage bounds each text from an agent, in bytes.
const maxMessage = 4096

func seenFromProto(o *jobsv1.ObservedWork) (Observed, error) {
	b := o.GetBatch()
	s := Observed{
		Key:   Key{ID: o.GetWorkId(), Generation: o.GetGeneration(), Fence: o.GetFence()},
		Phase: phaseFromProto(o.GetPhase()), Detail: cut(o.GetDetail()),
		PreparingAt: request.StorableTime(o.GetPreparingAt()), RunningAt: request.StorableTime(o.GetRunningAt()), ExitedAt: request.StorableTime(o.GetExitedAt()),
		Uncollected: o.GetUncollected(),
		BatchID:     cutTo(b.GetId(), maxBatchText), BatchReason: cutTo(b.GetReason(), maxBatchText), BatchDetail: cut(b.GetDetail()), BatchNodes: batchNodes(b),
	}
	if e := o.GetExit(); e != nil {
		s.Exit = &gang.Exit{Code: int(e.GetCode()), Signal: int(e.GetSignal()), Reason: cut(e.GetReason()), Message: cut(e.GetMessage())}
	}
	if o.GetEngine() == nil {
		return s, nil
	}
	report, _ := proto.Clone(o.GetEngine()).(*jobsv1.EngineReport)
	s.EngineKey = secret.New(report.GetApiKey())
	report.ApiKey = ""
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(report)
	if err != nil {
		return s, fmt.Errorf("encode the report of engine %s: %w", s.ID, err)
	}
	s.Engine = raw
	return s, nil
}

func seenToProto(s Observed) (*jobsv1.ObservedWork, error) {
	o := &jobsv1.ObservedWork{
		WorkId: s.ID, Generation: s.Generation, Fence: s.Fence, Phase: phaseToProto(s.Phase), Detail: s.Detail,
		PreparingAt: request.OptionalTime(s.PreparingAt), RunningAt: request.OptionalTime(s.RunningAt), ExitedAt: request.OptionalTime(s.ExitedAt),
		Uncollected: s.Uncollected, Batch: batchToProto(s),
	}
	if s.Exit != nil {
		o.Exit = &jobsv1.Exit{
			Code: int32(s.Exit.Code), Signal: int32(s.Exit.Signal), Reason: s.Exit.Reason, Message: s.Exit.Message,
		}
	}
	if s.Engine == nil {
		return o, nil
	}
	o.Engine = &jobsv1.EngineReport{}
	if err := proto.Unmarshal(s.Engine, o.GetEngine()); err != nil {
		return nil, fmt.Errorf("decode the report of engine %s: %w", s.ID, err)
	}
	o.Engine.ApiKey = s.EngineKey.Reveal()
	return o, nil
}

func cut(s string) string { return job.StorableText(s, maxMessage) }
