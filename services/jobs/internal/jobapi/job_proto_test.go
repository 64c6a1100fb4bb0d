package jobapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// unset returns the names of the empty fields of a message.
func unset(m proto.Message) []string {
	var names []string
	r := m.ProtoReflect()
	for i := range r.Descriptor().Fields().Len() {
		if f := r.Descriptor().Fields().Get(i); !r.Has(f) {
			names = append(names, string(f.Name()))
		}
	}
	return names
}

func TestJobProtoFieldsAreFilled(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	code, step := 3, int64(7)
	j := &job.Job{
		ID: "job_1", RunID: "run_1", Name: "n", OwnerName: "alice", Project: "default", Labels: map[string]string{"a": "b"},
		Spec: []byte("{}"), SpecDigest: "sha256:1", CreatedAt: now, Status: job.Status{
			State: job.Queued, EndReason: "r", Message: "m", Warnings: []string{"w"}, Attempt: 1,
			Queue:       job.Queue{Position: 1, Reason: "r", Detail: "d", Since: now},
			ScheduledAt: &now, StartingAt: &now, ExecutorRunningAt: &now, RunningAt: &now, EndedAt: &now, PausedAt: &now,
			Checkpoint: &job.Checkpoint{ArtifactID: "art_1", Attempt: 1, Step: &step, Format: "npz", Size: 1, CreatedAt: now},
			Collected:  new(false),
		},
		Priority: 50, Seq: 3, RunningS: 1, StartingS: 2, QueueS: 3,
	}
	m := ToProto(j)
	require.Empty(t, unset(m))
	require.Empty(t, unset(m.GetLimits()))
	require.Empty(t, unset(m.GetCheckpoint()))
	require.Empty(t, unset(m.GetQueue()))
	a := &job.Attempt{
		Number: 1, State: job.Failed, NodeID: "nod_1", EndReason: "r", Message: "m", ExitCode: &code, Phase: gang.PhaseExited,
		CreatedAt: now, StartingAt: &now, ExecutorRunningAt: &now, RunningAt: &now, EndedAt: &now,
		ResumedFrom: "art_1", Collected: new(false), BatchID: "17", BatchNodes: []string{"n1"},
	}
	require.Empty(t, unset(attemptToProto(a)))
	e := event.Event{ID: "evt_1", At: now, Type: "t", ActorKind: "user", ActorID: "usr_1", From: "a", To: "b", Reason: "r", Message: "m", Seq: 1}
	require.Empty(t, unset(eventToProto(e)))
}

func TestJobProtoEmptyFieldsAreNull(t *testing.T) {
	t.Parallel()
	m := ToProto(&job.Job{Status: job.Status{State: job.Running, Collected: new(true)}})
	require.Nil(t, m.Collected, "it is known only at the end")
	require.Nil(t, m.GetQueue(), "a placed job must have no queue status")
	held := job.Status{State: job.Scheduled, BatchHeld: true, Queue: job.Queue{Reason: "Priority"}}
	require.Equal(t, "Priority", ToProto(&job.Job{Status: held}).GetQueue().GetReason(), "a batch system holds the job")
	held.BatchHeld = false
	require.Nil(t, ToProto(&job.Job{Status: held}).GetQueue())
	require.Nil(t, m.EndReason)
	require.Nil(t, m.Message)
	require.Nil(t, m.GetRunningAt())
	require.Nil(t, attemptToProto(&job.Attempt{}).ExitCode)
}

func TestStateToProto(t *testing.T) {
	t.Parallel()
	seen := map[jobsv1.JobState]bool{}
	for _, s := range job.States() {
		m := StateToProto(s)
		require.Equal(t, "JOB_STATE_"+upper(string(s)), m.String())
		seen[m] = true
	}
	require.Len(t, seen, len(jobsv1.JobState_name)-1, "every state but UNSPECIFIED must be used")
	require.Equal(t, jobsv1.JobState_JOB_STATE_UNSPECIFIED, StateToProto("x"))
}

func upper(s string) string {
	out := []byte(s)
	for i, c := range out {
		out[i] = c - 'a' + 'A'
	}
	return string(out)
}
