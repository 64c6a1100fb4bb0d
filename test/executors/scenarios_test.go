package executors

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// scenario is something that a user or the world does, and what must follow on every executor.
type scenario struct {
	name string
	run  func(h *harness)
}

// scenarios run one after the other.
var scenarios = []scenario{
	{"agent killed", killAgents},
	{"restarts", restartServers},
	{"node death", failNode},
	{"torchrun", reduceOverNodes},
}

// meanwhile are the scenarios that run after a node has died, on the other one, because it takes long until its job is
// repeated.
var meanwhile = []scenario{
	{"train", trainAndReport},
	{"pause and resume", pauseAndResume},
	{"stop", stop},
}

// runAll runs the scenarios as subtests.
func (h *harness) runAll(all []scenario) {
	for _, s := range all {
		h.Run(s.name, func(t *testing.T) {
			own := *h
			own.T = t
			s.run(&own)
		})
	}
}

// trainAndReport requires that all that a training reports can be read.
func trainAndReport(h *harness) {
	j := h.train()
	j.continues(1)
	j.requireSteps()
	var lines []string
	for step := range 10 {
		lines = append(lines, fmt.Sprint("step ", step))
	}
	require.Equal(h, lines, j.log())
	samples, err := j.Samples(h.Context())
	require.NoError(h, err)
	require.Len(h, samples, 1)
	require.Equal(h, "2", samples[0].Answer)
	require.Equal(h, "trained by attempt 1", j.download())
	h.awaitIdle(h)
}

// download returns the content of the artifact that the training exports.
func (j *job) download() string {
	j.Helper()
	artifact, err := j.FindArtifact(j.Context(), "hf_export", "text")
	require.NoError(j, err)
	var files []struct{ URL string }
	require.NoError(j, j.Client.Get(j.Context(), "/api/jobs/"+j.Job.ID+"/artifacts/"+artifact.ID+"/download", nil, &files))
	require.Len(j, files, 1)
	req, err := http.NewRequestWithContext(j.Context(), http.MethodGet, files[0].URL, nil)
	require.NoError(j, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(j, err)
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	require.NoError(j, err)
	return string(content)
}

// pauseAndResume requires that a pause saves a checkpoint and releases the resources, and that the next attempt continues
// from the checkpoint.
func pauseAndResume(h *harness) {
	j := h.train()
	h.until("the training listens for signals, so that it can be paused", func() bool {
		err := j.request("pause")
		if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != http.StatusConflict {
			require.NoError(h, err, h.tail())
		}
		return err == nil
	})
	j.reach("paused")
	require.Equal(h, "paused", j.attempts()[0].State)
	h.awaitIdle(h)
	require.Equal(h, []string{"1 0"}, j.starts())
	require.NoError(h, j.request("resume"), h.tail())
	j.awaitStart("1 0", "2 5")
	j.continues(2)
	j.requireSteps()
	require.Equal(h, "trained by attempt 2", j.download())
}

// stop requires that a training that is stopped receives SIGTERM, and then has time to save its work.
func stop(h *harness) {
	j := h.train()
	require.NoError(h, j.request("stop"), h.tail())
	j.awaitTermination()
	require.NoError(h, j.AwaitState(h.Context(), "stopping"))
	require.Equal(h, "stopping", j.Job.State)
	j.gate.release(j.Job.RunID)
	j.reach("stopped")
	require.Equal(h, "user_stop", *j.Job.EndReason)
	attempts := j.attempts()
	require.Len(h, attempts, 1)
	require.Equal(h, []string{"stopped", "user_stop"}, []string{attempts[0].State, attempts[0].EndReason})
	require.Contains(h, j.log(), "saved after SIGTERM")
	require.Equal(h, []string{"1 0"}, j.starts())
	h.awaitIdle(h)
}

// killAgents requires that the next agents adopt what the killed ones ran.
func killAgents(h *harness) {
	j := h.train()
	for _, a := range h.agents() {
		a.Kill()
	}
	for _, a := range h.agents() {
		a.Start()
	}
	j.continues(1)
	require.Equal(h, []string{"1 0"}, j.starts())
	j.requireSteps()
	h.awaitReady(h)
}

// restartServers requires that a training survives the restart of each server.
func restartServers(h *harness) {
	for name, restart := range h.servers(h) {
		j := h.train()
		restart()
		j.continues(1)
		require.Equal(h, []string{"1 0"}, j.starts(), name)
		j.requireSteps()
	}
}

// failNode requires that a training whose node dies is repeated once, on the other node, and that other jobs run there
// meanwhile.
func failNode(h *harness) {
	j := h.train()
	var node string
	h.until("the node of the attempt is known", func() bool {
		node = h.node(h, j.attempts()[0])
		return node != ""
	})
	message := h.fail(j, node)
	j.gate.release(j.Job.RunID)
	h.runAll(meanwhile)
	j.continues(2)
	attempts := j.attempts()
	require.Equal(h, []string{"failed", "executor_lost"}, []string{attempts[0].State, attempts[0].EndReason})
	require.Contains(h, attempts[0].Message, message)
	require.NotEqual(h, node, h.node(h, attempts[1]))
	require.Equal(h, []string{"1 0", "2 0"}, j.starts())
	j.requireSteps()
	h.repair(h, node)
}
