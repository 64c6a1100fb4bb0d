package enginesync

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// orderToProto returns the order of a revision. The same revision always gives the same spec.
func orderToProto(r *revision.Revision) *jobspeerv1.PutWorkRequest {
	desired := jobsv1.Desired_DESIRED_GONE
	if r.Wanted {
		desired = jobsv1.Desired_DESIRED_RUNNING
	}
	out := &jobspeerv1.PutWorkRequest{
		WorkId: r.WorkID, Generation: r.Generation, Desired: desired, Pool: r.Serving.Pool, Engine: specToProto(r),
		OwnerId: r.Plan.OwnerID, ProjectId: r.Plan.ProjectID,
	}
	out.Deadline = request.OptionalTime(r.Deadline)
	return out
}

func goneToProto(workID string, generation int64) *jobspeerv1.PutWorkRequest {
	// Use the next generation, because the jobs service rejects a different order of the same generation.
	return &jobspeerv1.PutWorkRequest{WorkId: workID, Generation: generation + 1, Desired: jobsv1.Desired_DESIRED_GONE}
}

func specToProto(r *revision.Revision) *jobsv1.EngineSpec {
	p := r.Plan
	spec := &jobsv1.EngineSpec{
		DeploymentId: r.DeploymentID, RevisionId: r.ID, RevisionNumber: r.Number, Driver: r.Serving.Engine,
		ModelDigest: p.ModelDigest, ServedNames: p.ServedNames, Command: r.Serving.Command, Args: r.Serving.Args,
		Task: p.Task, Limits: &jobsv1.ResourceLimits{Gpus: r.Serving.GPUs}, ProbeDeadlineS: p.ProbeS,
	}
	for _, f := range append([]revision.File{p.Model}, p.More...) {
		spec.Model = append(spec.Model, &jobsv1.ObjectRef{Path: f.Path, Uri: f.URI, SizeBytes: f.Size, Sha256: f.SHA256, Unpack: f.Packed})
	}
	if r.Serving.Engine == revision.EngineCommand {
		sum := sha256.Sum256([]byte(r.Serving.Requirements))
		spec.Environment = &jobsv1.EnvironmentSpec{
			Requirements: r.Serving.Requirements, Digest: "sha256:" + hex.EncodeToString(sum[:]),
		}
	}
	return spec
}

// observationFromProto converts the status of a work, as reported by the jobs service.
func observationFromProto(w *jobspeerv1.WorkStatus) revision.Observation {
	o := revision.Observation{
		WorkID: w.GetWorkId(), Generation: w.GetGeneration(), Fence: w.GetFence(), NodeID: w.GetNodeId(), Waiting: w.GetWaiting(),
	}
	seen := w.GetObserved()
	// Ignore observations of an earlier execution.
	if seen == nil || seen.GetGeneration() != w.GetGeneration() || seen.GetFence() != w.GetFence() {
		return o
	}
	o.Phase, o.Detail, o.RunningAt = phaseFromProto(seen.GetPhase()), words(seen.GetDetail()), request.StorableTime(seen.GetRunningAt())
	if e := seen.GetExit(); e != nil {
		o.Exit = &revision.Exit{Code: e.GetCode(), Signal: e.GetSignal(), Reason: words(e.GetReason()), Message: words(e.GetMessage())}
	}
	if r := seen.GetEngine(); r != nil {
		o.Report = &revision.Report{
			Phase: r.GetPhase(), Code: words(r.GetCode()), Message: words(r.GetMessage()), Log: words(r.GetLogExcerpt()), Ready: r.GetReady(),
			ReadyAt: request.StorableTime(r.GetReadyAt()),
			Engine:  revision.Engine{PID: r.GetPid(), Address: words(r.GetAddress()), Key: secret.New(r.GetApiKey())},
		}
		if json.Valid(r.GetProbes()) && utf8.Valid(r.GetProbes()) {
			o.Report.Probes = r.GetProbes()
		}
	}
	return o
}

// words removes NUL bytes from the text of an agent or an engine. Postgres cannot store NUL bytes, so the write would
// fail and end the stream for all engines, again after every retry.
func words(s string) string { return strings.ReplaceAll(s, "\x00", "") }

func phaseFromProto(p jobsv1.Phase) revision.Phase {
	switch p {
	case jobsv1.Phase_PHASE_PENDING:
		return revision.PhasePending
	case jobsv1.Phase_PHASE_PREPARING:
		return revision.PhasePreparing
	case jobsv1.Phase_PHASE_RUNNING:
		return revision.PhaseRunning
	case jobsv1.Phase_PHASE_COLLECTING:
		return revision.PhaseCollecting
	case jobsv1.Phase_PHASE_EXITED:
		return revision.PhaseExited
	case jobsv1.Phase_PHASE_GONE:
		return revision.PhaseGone
	case jobsv1.Phase_PHASE_UNSPECIFIED:
	}
	return revision.PhaseNone
}
