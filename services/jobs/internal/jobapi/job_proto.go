package jobapi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// shown converts a job for the caller. The values of environment variables are often secrets, so only those who may
// change the job get them.
func shown(ctx context.Context, j *job.Job) (*jobsv1.Job, error) {
	m := ToProto(j)
	if authn.CallerOf(ctx).CanEdit(j.OwnerID, j.ProjectID) {
		return m, nil
	}
	var err error
	if m.Spec, err = jobspec.MaskEnv(j.Spec); err != nil {
		return nil, fmt.Errorf("mask the environment of job %s: %w", j.ID, err)
	}
	return m, nil
}

// ToProto converts a job to proto, with the values of environment variables.
func ToProto(j *job.Job) *jobsv1.Job {
	m := &jobsv1.Job{
		Id: j.ID, RunId: j.RunID, Name: j.Name, State: StateToProto(j.State), EndReason: request.NonEmpty(j.EndReason),
		Message: request.NonEmpty(j.Message), Project: j.Project, Owner: j.OwnerName, Labels: j.Labels,
		Attempt: int32(j.Attempt), Spec: j.Spec, SpecDigest: j.SpecDigest, Warnings: j.Warnings,
		CreatedAt: timestamppb.New(j.CreatedAt), ScheduledAt: request.OptionalTime(j.ScheduledAt), StartingAt: request.OptionalTime(j.StartingAt),
		ExecutorRunningAt: request.OptionalTime(j.ExecutorRunningAt), RunningAt: request.OptionalTime(j.RunningAt), EndedAt: request.OptionalTime(j.EndedAt),
		PausedAt: request.OptionalTime(j.PausedAt), Priority: int32(j.Priority), Checkpoint: checkpointToProto(j.Checkpoint), Version: j.Seq,
		Limits: limitsToProto(j),
	}
	if j.EndedAt != nil {
		m.Collected = j.Collected
	}
	if j.Waits() {
		m.Queue = &jobsv1.QueueStatus{
			Position: int32(j.Queue.Position), Reason: j.Queue.Reason, ReasonDetail: j.Queue.Detail,
			Since: timestamppb.New(j.Queue.Since),
		}
	}
	return m
}

func changesFromProto(req *jobsv1.UpdateJobRequest) *Changes {
	c := &Changes{Name: req.Name, Labels: req.GetLabels(), Priority: optionalInt(req.Priority)}
	if l := req.GetLimits(); l != nil {
		c.RunningS, c.StartingS, c.QueueS = optionalInt(l.RunningS), optionalInt(l.StartingS), optionalInt(l.QueuedS)
	}
	return c
}

func optionalInt(n *int32) *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}

func limitsToProto(j *job.Job) *jobsv1.Limits {
	running, starting, queued := int32(j.RunningS), int32(j.StartingS), int32(j.QueueS)
	return &jobsv1.Limits{RunningS: &running, StartingS: &starting, QueuedS: &queued}
}

func checkpointToProto(c *job.Checkpoint) *jobsv1.Checkpoint {
	if c == nil {
		return nil
	}
	return &jobsv1.Checkpoint{
		ArtifactId: c.ArtifactID, Attempt: int32(c.Attempt), Step: c.Step, Format: c.Format, SizeBytes: c.Size,
		CreatedAt: timestamppb.New(c.CreatedAt),
	}
}

func attemptToProto(a *job.Attempt) *jobsv1.Attempt {
	m := &jobsv1.Attempt{
		Number: int32(a.Number), State: string(a.State), NodeId: request.NonEmpty(a.NodeID), EndReason: request.NonEmpty(a.EndReason),
		Message: request.NonEmpty(cmp.Or(a.Message, a.Doing)), CreatedAt: timestamppb.New(a.CreatedAt), StartingAt: request.OptionalTime(a.StartingAt),
		ExecutorRunningAt: request.OptionalTime(a.ExecutorRunningAt), RunningAt: request.OptionalTime(a.RunningAt), EndedAt: request.OptionalTime(a.EndedAt),
		Phase: request.NonEmpty(a.Phase), ResumedFrom: request.NonEmpty(a.ResumedFrom),
		Collected: a.Collected, BatchId: request.NonEmpty(a.BatchID), BatchNodes: a.BatchNodes,
	}
	if a.ExitCode != nil {
		code := int32(*a.ExitCode)
		m.ExitCode = &code
	}
	return m
}

func eventToProto(e event.Event) *commonv1.Event {
	return &commonv1.Event{
		Id: e.ID, Seq: e.Seq, Ts: timestamppb.New(e.At), Type: e.Type, ActorKind: e.ActorKind, ActorId: request.NonEmpty(e.ActorID),
		From: request.NonEmpty(e.From), To: request.NonEmpty(e.To), Reason: request.NonEmpty(e.Reason), Message: request.NonEmpty(e.Message),
	}
}

// StateToProto converts a state to proto.
func StateToProto(s job.State) jobsv1.JobState {
	switch s {
	case job.Queued:
		return jobsv1.JobState_JOB_STATE_QUEUED
	case job.Scheduled:
		return jobsv1.JobState_JOB_STATE_SCHEDULED
	case job.Starting:
		return jobsv1.JobState_JOB_STATE_STARTING
	case job.Running:
		return jobsv1.JobState_JOB_STATE_RUNNING
	case job.Pausing:
		return jobsv1.JobState_JOB_STATE_PAUSING
	case job.Paused:
		return jobsv1.JobState_JOB_STATE_PAUSED
	case job.Stopping:
		return jobsv1.JobState_JOB_STATE_STOPPING
	case job.Succeeded:
		return jobsv1.JobState_JOB_STATE_SUCCEEDED
	case job.Failed:
		return jobsv1.JobState_JOB_STATE_FAILED
	case job.Stopped:
		return jobsv1.JobState_JOB_STATE_STOPPED
	}
	return jobsv1.JobState_JOB_STATE_UNSPECIFIED
}

const (
	graceS = int32(job.StopGrace / time.Second)
	// usualProcesses is the limit of processes and threads in pools that have no setting for it. It is more than a
	// training uses, and far less than a machine can have.
	usualProcesses = 4096
)

// template encodes the agent's spec that all attempts of a job share, without the fields set for each attempt. It
// contains no secrets.
func template(d *admission.Draft, jobID, runID string) ([]byte, error) {
	command := d.Recipe.Entrypoint
	if d.Recipe.Name == admission.CustomRecipe {
		command = d.Spec.Source.Command
	}
	m := &jobsv1.AttemptSpec{
		JobId: jobID, RunId: runID, Recipe: d.Recipe.Name, RecipeVersion: d.Recipe.Version, RecipeDigest: d.Recipe.Digest,
		Package: jobspec.ObjectToProto(cmp.Or(d.Package, d.Recipe.Package)), Environment: environmentOf(d),
		Command: command, Hparams: d.Spec.Hparams, Env: d.Spec.Env, Seed: *d.Spec.Seed,
		Limits: templateLimitsToProto(d), GraceS: graceS, NoNetwork: d.Spec.Network == jobspec.NetworkNone,
	}
	for _, b := range d.Inputs.Datasets {
		m.Datasets = append(m.Datasets, &jobsv1.DatasetInput{Name: b.Name, Ref: b.Ref, Digest: b.Digest, Files: jobspec.ObjectsToProto(b.Files)})
	}
	if b := d.Inputs.Model; b != nil {
		m.Model = &jobsv1.ModelInput{Ref: b.Ref, Digest: b.Digest, Format: b.Format, Files: jobspec.ObjectsToProto(b.Files)}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the spec template of a job: %w", err)
	}
	return raw, nil
}

// environmentOf returns the environment of the attempts: that of the recipe, or the one that the user has chosen.
func environmentOf(d *admission.Draft) *jobsv1.EnvironmentSpec {
	env := jobspec.EnvironmentToProto(d.Recipe.Environment)
	if r := d.Spec.Runtime; r != nil {
		env = &jobsv1.EnvironmentSpec{Sdk: env.GetSdk(), Lock: r.Requirements, Python: r.Node, Project: d.Project.ID}
	} else if env.GetLock() != "" {
		env.Project = d.Project.ID
	}
	return env
}

// templateLimitsToProto returns, for each resource, the largest request of any pool, and the smallest limit of processes,
// because it applies on the nodes of all pools. GPUs are set for each rank when it is placed.
func templateLimitsToProto(d *admission.Draft) *jobsv1.ResourceLimits {
	l := &jobsv1.ResourceLimits{}
	for _, p := range d.Spec.Resources.Pools {
		processes := int32(cmp.Or(d.Pools[p.Pool].Processes, usualProcesses))
		l.Pids = min(cmp.Or(l.GetPids(), processes), processes)
		l.Cpus = max(l.GetCpus(), int32(p.CPU))
		l.MemoryBytes = max(l.GetMemoryBytes(), p.Need().Memory)
	}
	return l
}
