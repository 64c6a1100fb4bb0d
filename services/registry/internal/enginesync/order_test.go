package enginesync

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func ofGguf() *revision.Revision {
	return &revision.Revision{
		ID: "rev_1", DeploymentID: "dep_1", Number: 2, WorkID: "wrk_1", Generation: 3, Wanted: true,
		Serving: revision.Serving{Engine: revision.EngineLlamaCpp, Pool: "gpu", GPUs: 1, Args: []string{"-c", "4096"}},
		Plan:    revision.Plan{OwnerID: "usr_1", ProjectID: "prj_1", ProbeS: 60, ServedNames: []string{"default"}, Model: revision.File{Path: "m.gguf", SHA256: "ab"}},
	}
}

func TestOrderToProto(t *testing.T) {
	t.Parallel()
	r := ofGguf()
	in := orderToProto(r)
	require.Equal(t, []any{"wrk_1", int64(3), "gpu", "usr_1", "prj_1"},
		[]any{in.GetWorkId(), in.GetGeneration(), in.GetPool(), in.GetOwnerId(), in.GetProjectId()})
	require.Equal(t, jobsv1.Desired_DESIRED_RUNNING, in.GetDesired())
	require.Equal(t, "m.gguf", in.GetEngine().GetModel()[0].GetPath())
	require.EqualValues(t, 1, in.GetEngine().GetLimits().GetGpus())
	require.Nil(t, in.GetEngine().GetEnvironment(), "llamacpp needs no environment")
	require.True(t, proto.Equal(in, orderToProto(ofGguf())), "the same revision gives the same order")
	r.Wanted = false
	require.Equal(t, jobsv1.Desired_DESIRED_GONE, orderToProto(r).GetDesired())
	gone := goneToProto("wrk_1", 3)
	require.EqualValues(t, 4, gone.GetGeneration(), "another order of the same generation would be a conflict")
	require.Equal(t, jobsv1.Desired_DESIRED_GONE, gone.GetDesired())
}

func TestOrderToProto_commandEnvironment(t *testing.T) {
	t.Parallel()
	r := ofGguf()
	r.Serving.Engine, r.Serving.Requirements = revision.EngineCommand, "vllm==1\n"
	first := orderToProto(r).GetEngine().GetEnvironment()
	require.Equal(t, "vllm==1\n", first.GetRequirements())
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, first.GetDigest())
	r.Serving.Requirements = ""
	require.NotEqual(t, first.GetDigest(), orderToProto(r).GetEngine().GetEnvironment().GetDigest())
}

func TestObservationFromProto_ignoresOtherExecution(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 0, 0, 1999, time.UTC)
	status := func(generation, fence int64) *jobspeerv1.WorkStatus {
		return &jobspeerv1.WorkStatus{
			WorkId: "wrk_1", Generation: 2, Fence: 5, NodeId: "nod_1", Waiting: "no_capacity",
			Observed: &jobsv1.ObservedWork{
				Generation: generation, Fence: fence, Phase: jobsv1.Phase_PHASE_RUNNING, RunningAt: timestamppb.New(at),
				Exit:   &jobsv1.Exit{Code: 1, Reason: "start", Message: "m"},
				Engine: &jobsv1.EngineReport{Ready: true, Address: "a:1", ApiKey: "k", Pid: 7, Probes: []byte(`{"n":1}`)},
			},
		}
	}
	for _, other := range [][2]int64{{1, 5}, {2, 4}, {3, 5}, {2, 6}} {
		o := observationFromProto(status(other[0], other[1]))
		require.Equal(t, revision.Observation{WorkID: "wrk_1", Generation: 2, Fence: 5, NodeID: "nod_1", Waiting: "no_capacity"}, o)
	}
	o := observationFromProto(status(2, 5))
	require.Equal(t, revision.PhaseRunning, o.Phase)
	require.Equal(t, at.Truncate(time.Microsecond), *o.RunningAt, "times are truncated to microseconds")
	require.Equal(t, &revision.Exit{Code: 1, Reason: "start", Message: "m"}, o.Exit)
	require.Equal(t, "k", o.Report.Engine.Key.Reveal())
	require.JSONEq(t, `{"n":1}`, string(o.Report.Probes))
	bad := status(2, 5)
	bad.Observed.Engine.Probes, bad.Observed.RunningAt = []byte(`{`), &timestamppb.Timestamp{Seconds: 1 << 60}
	o = observationFromProto(bad)
	require.Nil(t, o.Report.Probes, "invalid JSON is dropped")
	require.Nil(t, o.RunningAt)
}

func TestPhaseFromProto_distinctPhases(t *testing.T) {
	t.Parallel()
	seen := map[revision.Phase]bool{}
	for n := range jobsv1.Phase_name {
		p := phaseFromProto(jobsv1.Phase(n))
		require.False(t, seen[p], "phase %d maps to %q like another phase", n, p)
		seen[p] = true
	}
	require.Equal(t, revision.PhaseNone, phaseFromProto(jobsv1.Phase(99)))
}

func TestPools_Check(t *testing.T) {
	t.Parallel()
	p := &Pools{Works: &jobs{}}
	require.NoError(t, p.Check(t.Context(), "default"))
	require.True(t, fault.HasCode(p.Check(t.Context(), "open"), "isolation"))
	require.True(t, fault.HasCode(p.Check(t.Context(), "slurm"), "slurm_engine"))
	require.NoError(t, p.Check(t.Context(), "older"), "Check must accept the pool if the jobs service is older and does not know the call")
}
