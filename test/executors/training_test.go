package executors

import (
	"fmt"
	"maps"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// training is a training of ten steps, which waits at the gate after its fifth one. When it is paused, it saves its step,
// from which the next attempt continues. When it receives SIGTERM, it waits at the gate again, and exits.
const training = `
import os, signal, sys, time, urllib.request, signalbox

gate, run_id, attempt = "http://" + os.environ["GATE"], os.environ["SERVICE_JOB_RUN_ID"], os.environ["SERVICE_JOB_ATTEMPT"]
terminated = False

def report(event, detail):
    urllib.request.urlopen(f"{gate}/{run_id}/{attempt}/{event}", detail.encode(), timeout=60).close()

def closed():
    with urllib.request.urlopen(f"{gate}/{run_id}", timeout=60) as response:
        return response.read() != b"open"

def terminate(number, frame):
    global terminated
    terminated = True

signal.signal(signal.SIGTERM, terminate)
run = signalbox.init()
with run:
    run.starting()
    first = int(open(run.resume_from).read()) if run.resume_from else 0
    run.running()
    report("start", str(first))
    for step in range(first, 10):
        run.log({"train": {"loss": 1 / (step + 1)}}, step=step)
        print("step", step, flush=True)
        while step == 4 and closed() and not terminated and not run.should_checkpoint():
            time.sleep(0.05)
        if terminated:
            report("terminated", str(step))
            while closed():
                time.sleep(0.05)
            print("saved after SIGTERM", flush=True)
            run.flush()
            os._exit(0)
        if run.should_checkpoint():
            with open("state", "w") as file:
                file.write(str(step + 1))
            run.checkpoint("state", format="text", step=step)
    run.validation(step=9, samples=[{"user": "1+1", "assistant": "2", "reward": 1.0}], avg_reward=1.0)
    with open("model", "w") as file:
        file.write("trained by attempt " + attempt)
    run.artifact("model", kind="hf_export", format="text", step=9)
`

// job is a job of a test.
type job struct {
	*harness
	*e2eflow.Loop
}

// attempt is an attempt as the API returns it.
type attempt struct {
	Number     int
	State      string
	EndReason  string   `json:"end_reason"`
	Message    string   `json:"message"`
	ExitCode   *int     `json:"exit_code"`
	NodeID     string   `json:"node_id"`
	BatchID    string   `json:"batch_id"`
	BatchNodes []string `json:"batch_nodes"`
}

// train submits a training and waits until its first attempt waits at the gate.
func (h *harness) train() *job {
	h.Helper()
	j := h.submit(1, nil, "python", "-c", training)
	h.Cleanup(func() { j.gate.release(j.Job.RunID) }) // after a failure, the training must not be in the way of others
	j.awaitStart("1 0")
	return j
}

// submit submits a job with the given number of nodes that runs a command. The settings are further fields of its spec.
func (h *harness) submit(nodes int, settings map[string]any, command ...string) *job {
	h.Helper()
	j := &job{harness: h, Loop: h.s.Loop(h.Context())}
	body := testenv.Command(h.Context(), h.s, j.Loop, command...)
	spec := body["spec"].(map[string]any)
	spec["env"] = map[string]string{"GATE": h.gate.address}
	spec["resources"] = map[string]any{"pools": []any{map[string]any{"pool": pool, "nodes": nodes}}}
	maps.Copy(spec, settings)
	require.NoError(h, j.Submit(h.Context(), body), h.tail())
	return j
}

// starts are the starts of the training so far, each as `ATTEMPT FIRST_STEP`.
func (j *job) starts() []string { return j.gate.received(j.Job.RunID, "start") }

// awaitStart waits until the training has been started at least as often as stated, and requires that it was started
// exactly in this way.
func (j *job) awaitStart(starts ...string) {
	j.Helper()
	j.until(fmt.Sprintf("the training of %s has started as %q", j.Job.ID, starts), func() bool { return len(j.starts()) >= len(starts) || j.ended() })
	require.Equal(j, starts, j.starts(), "%s%s", j.attempts(), j.tail())
}

// awaitTermination waits until the training has received SIGTERM.
func (j *job) awaitTermination() {
	j.Helper()
	terminated := func() bool { return j.gate.received(j.Job.RunID, "terminated") != nil }
	j.until("the training of "+j.Job.ID+" has received SIGTERM", func() bool { return terminated() || j.ended() })
	require.True(j, terminated(), "the training has ended without SIGTERM: %+v%s", j.attempts(), j.tail())
}

// ended reports whether the job has ended.
func (j *job) ended() bool {
	var now e2eflow.Job
	return j.Client.Get(j.Context(), "/api/jobs/"+j.Job.ID, nil, &now) == nil && now.Terminal()
}

// request sends a request to the job, such as `pause`.
func (j *job) request(verb string) error {
	return j.Client.Post(j.Context(), "/api/jobs/"+j.Job.ID+"/"+verb, map[string]any{}, nil)
}

// reach waits until the job is in the state.
func (j *job) reach(state string) {
	j.Helper()
	if err := j.AwaitState(j.Context(), state); err != nil || j.Job.State != state {
		require.FailNow(j, "the job is "+j.Job.State+", not "+state, "%v %+v\n%s%s", err, j.attempts(), strings.Join(j.log(), "\n"), j.tail())
	}
}

func (j *job) attempts() (all []attempt) {
	j.Helper()
	require.NoError(j, j.Client.Get(j.Context(), "/api/jobs/"+j.Job.ID+"/attempts", nil, &all))
	return all
}

// continues lets the training continue, and requires that it succeeds with the given number of attempts.
func (j *job) continues(attempts int) {
	j.Helper()
	j.gate.release(j.Job.RunID)
	j.reach("succeeded")
	require.Equal(j, attempts, j.Job.Attempt)
	all := j.attempts()
	require.Len(j, all, attempts)
	// A training that reports its success has succeeded even if its processes are lost then. The executor must have seen
	// its exit.
	require.NotNil(j, all[attempts-1].ExitCode)
	require.Zero(j, *all[attempts-1].ExitCode, "%+v%s", all, j.tail())
}

// log returns the lines of the job's log so far.
func (j *job) log() (texts []string) {
	j.Helper()
	var lines []e2eflow.LogLine
	require.NoError(j, j.Client.Get(j.Context(), "/api/jobs/"+j.Job.ID+"/logs", nil, &lines))
	for _, line := range lines {
		texts = append(texts, line.Text)
	}
	return texts
}

// requireSteps requires that the chart has each step exactly once.
func (j *job) requireSteps() {
	j.Helper()
	var series []struct {
		Points []struct {
			Step  int
			Value float64
		}
	}
	require.NoError(j, j.Client.Get(j.Context(), "/api/runs/"+j.Job.RunID+"/metrics", map[string][]string{"keys": {"train.loss"}}, &series))
	require.Len(j, series, 1)
	require.Len(j, series[0].Points, 10)
	for step, p := range series[0].Points {
		require.Equal(j, step, p.Step)
		require.InDelta(j, 1/float64(step+1), p.Value, 1e-9)
	}
}
