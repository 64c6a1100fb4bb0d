package assignment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

func fullReport() *jobsv1.ObservedWork {
	now := timestamppb.New(time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC))
	return &jobsv1.ObservedWork{
		WorkId: "wrk_1", Generation: 2, Fence: 3, Phase: jobsv1.Phase_PHASE_EXITED, Detail: "d",
		PreparingAt: now, RunningAt: now, ExitedAt: now, Uncollected: true,
		Batch: &jobsv1.BatchReport{Id: "4711", Reason: "Priority", Detail: "d", Nodes: []string{"n1", "n2"}},
		Exit:  &jobsv1.Exit{Code: -1, Signal: 9, Reason: "oom_host", Message: "m"},
		Engine: &jobsv1.EngineReport{
			Address: "http://127.0.0.1:1", ApiKey: "k", Pid: 5, Ready: true, Phase: "ready", Code: "c", Message: "m",
			Probes: []byte(`{}`), ReadyAt: now, Restarts: 1, LogExcerpt: "l",
		},
	}
}

// unset returns the names of the empty fields of a message, so that a conversion that omits a new field fails
// the test.
func unset(m proto.Message) []string {
	var names []string
	r := m.ProtoReflect()
	for i := range r.Descriptor().Fields().Len() {
		f := r.Descriptor().Fields().Get(i)
		if !r.Has(f) {
			names = append(names, string(f.Name()))
		} else if f.Kind() == protoreflect.MessageKind && !f.IsList() && !f.IsMap() && f.Message().FullName() != "google.protobuf.Timestamp" {
			for _, n := range unset(r.Get(f).Message().Interface()) {
				names = append(names, string(f.Name())+"."+n)
			}
		}
	}
	return names
}

func TestObservedWorkProtoRoundTrip(t *testing.T) {
	t.Parallel()
	report := fullReport()
	require.Empty(t, unset(report), "the test must fill every field of the contract")
	s, err := seenFromProto(report)
	require.NoError(t, err)
	require.Equal(t, "k", s.EngineKey.Reveal())
	require.NotContains(t, string(s.Engine), "ApiKey")
	back, err := seenToProto(s)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(report, back, protocmp.Transform()))
	require.Equal(t, "k", report.GetEngine().GetApiKey(), "the conversion must not change its argument")
}

func TestWorkToProto_includesRankEnvironment(t *testing.T) {
	t.Parallel()
	template := &jobsv1.AttemptSpec{JobId: "job_1", RunId: "run_1", Env: map[string]string{"A": "1"}, Limits: &jobsv1.ResourceLimits{Pids: 7}}
	raw, err := proto.Marshal(template)
	require.NoError(t, err)
	w := &Work{
		Observed: Observed{Key: Key{ID: "wrk_1", Generation: 1, Fence: 2}}, Kind: Attempt, Desired: WantStopped, Spec: raw, GPUs: 4,
		JobID: "job_1", Number: 3, Rank: 1, NNodes: 2, Role: "trainer", Master: "host-0",
	}
	m, err := toProto(w, "http://x/api/ingest")
	require.NoError(t, err)
	want := &jobsv1.Work{
		WorkId: "wrk_1", Kind: jobsv1.WorkKind_WORK_KIND_ATTEMPT, Generation: 1, Fence: 2, Desired: jobsv1.Desired_DESIRED_STOPPED,
		Spec: &jobsv1.Work_Attempt{Attempt: &jobsv1.AttemptSpec{
			JobId: "job_1", RunId: "run_1", Attempt: 3, IngestEndpoint: "http://x/api/ingest", Limits: &jobsv1.ResourceLimits{Pids: 7, Gpus: 4},
			Env: map[string]string{
				"A": "1", "SERVICE_JOB_ROLE": "trainer", "SERVICE_JOB_NODE_RANK": "1", "SERVICE_JOB_NNODES": "2",
				"SERVICE_JOB_GPUS_PER_NODE": "4", "SERVICE_JOB_MASTER_ADDR": "host-0", "SERVICE_JOB_MASTER_PORT": "29500",
			},
		}},
	}
	require.Empty(t, cmp.Diff(want, m, protocmp.Transform()))
	w.Spec = []byte{0xff}
	_, err = toProto(w, "")
	require.Error(t, err)
	w.Kind = Engine
	_, err = toProto(w, "")
	require.Error(t, err)
}

func TestDesiredAndPhaseProtoRoundTrip(t *testing.T) {
	t.Parallel()
	for _, d := range []Desired{WantRunning, WantStopped, WantGone} {
		got, ok := desiredFromProto(desiredToProto(d))
		require.True(t, ok)
		require.Equal(t, d, got)
	}
	_, ok := desiredFromProto(jobsv1.Desired_DESIRED_UNSPECIFIED)
	require.False(t, ok)
	for number := range jobsv1.Phase_name {
		phase := jobsv1.Phase(number)
		require.Equal(t, phase, phaseToProto(phaseFromProto(phase)))
	}
}
