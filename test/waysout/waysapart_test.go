package waysout

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// These are the limits of works in the installations of these tests. A log may grow by logRate bytes per second, by
// 16 times logRate at once, and by 24 times logRate in total.
const (
	workFiles = 40_000
	logBytes  = 24 * logRate
	logRate   = 64 << 10
)

// otherDevice is the name of a device that is not a GPU.
const otherDevice = "signalbox-test"

// devices returns the names of the devices of an installation: three GPUs and otherDevice.
func devices() []string { return []string{"nvidia0", "nvidia1", "nvidia2", otherDevice} }

// sumOfGPUs is the sum of the device numbers of the installation's GPUs.
const sumOfGPUs = 0 + 1 + 2

// gpus returns the number of GPUs that each job with GPUs requests.
func (h *waysHarness) gpus() int {
	if os.Geteuid() != 0 {
		return 0 // the installation has no GPUs
	}
	return 1
}

// awaitGPUs waits until the control plane knows the GPUs of the node. If the agent runs as a separate process, the node
// joins first and reports its GPUs later.
func (h *waysHarness) awaitGPUs(ctx context.Context, c *client.Client) {
	h.T.Helper()
	require.Eventually(h.T, func() bool {
		var cluster struct {
			GPUs int `json:"gpus_total"`
		}
		require.NoError(h.T, c.Get(ctx, "/api/cluster", nil, &cluster))
		return h.gpus() == 0 || cluster.GPUs == 3
	}, testenv.StageTimeout, 50*time.Millisecond, "the node does not report its GPUs")
}

// apart holds the jobs that try only one way each, because the attempt ends the job or makes it unusable for other
// ways.
type apart struct{ gpu, files, log, spool, space, inodes *waysJob }

func (h *waysHarness) startApart(ctx context.Context) (a apart) {
	h.T.Helper()
	h.plantSpools()
	if h.gpus() > 0 {
		a.gpu = h.startOn(ctx, h.gpus(), "gpu.py")
	}
	a.files, a.log, a.spool = h.start(ctx, "files.py", h.targets()), h.start(ctx, "log.py"), h.start(ctx, "spool.py", h.targets())
	a.space, a.inodes = h.start(ctx, "disk.py", h.targets(), "disk space"), h.start(ctx, "disk.py", h.targets(), "inodes")
	return a
}

func (h *waysHarness) collectApart(ctx context.Context, a apart) {
	h.T.Helper()
	if a.gpu != nil {
		h.collectGPUs(ctx, a.gpu)
	}
	h.collectStopped(ctx, a.files, "file descriptors of several processes", "files open")
	h.collectStopped(ctx, a.space, "disk space", "bytes of disk space")
	h.collectStopped(ctx, a.inodes, "inodes", "bytes of disk space")
	h.collectSpool(ctx, a.spool)
}

// collectGPUs reads which GPUs the job can open. The job has one of the three GPUs, the victim has another, and the
// third is free.
func (h *waysHarness) collectGPUs(ctx context.Context, j *waysJob) {
	h.T.Helper()
	dir, ok := h.known["dir"].(string)
	require.True(h.T, ok)
	own, others := h.gpuOf(filepath.Dir(j.await(ctx, "folder "))), h.gpuOf(dir)
	require.NotEqual(h.T, own, others)
	opened := strings.Fields(j.await(ctx, "opened"))
	for name, gpu := range map[string]int{"GPU that was given": own, "GPU of another work": others, "GPU of no work": sumOfGPUs - own - others} {
		h.results[name] = openIf(slices.Contains(opened, fmt.Sprintf("/dev/nvidia%d", gpu)))
	}
	require.NoError(h.T, j.Client.Post(ctx, "/api/jobs/"+j.Job.ID+"/stop", nil, nil))
}

// gpuOf returns the number of the GPU of the work in the given folder.
func (h *waysHarness) gpuOf(dir string) int {
	h.T.Helper()
	var assigned struct {
		GPUs []int `json:"gpus"`
	}
	h.read(filepath.Join(dir, "assignment.json"), &assigned)
	require.Len(h.T, assigned.GPUs, 1)
	return assigned.GPUs[0]
}

func (h *waysHarness) read(path string, into any) {
	h.T.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(h.T, err)
	require.NoError(h.T, json.Unmarshal(raw, into))
}

func openIf(leadsOut bool) string {
	if leadsOut {
		return openWay
	}
	return closedWay
}

// collectStopped reads the result of a job that tries one way. If the job is stopped for that, with a message that
// contains the text, the way counts as closed.
func (h *waysHarness) collectStopped(ctx context.Context, j *waysJob, name, text string) {
	h.T.Helper()
	for line := range j.lines {
		if h.T.Log(line); strings.HasPrefix(line, "way|") {
			h.results[name] = strings.Split(line, "|")[2]
			return
		}
	}
	require.NoError(h.T, j.AwaitState(ctx, "failed"))
	require.NotNil(h.T, j.Job.Message)
	require.Contains(h.T, *j.Job.Message, text)
	h.results[name] = closedWay
}

// collectLog checks the size of the job's log twice: after the job has printed too much at once, and after it has
// printed too much in total.
func (h *waysHarness) collectLog(ctx context.Context, j *waysJob) {
	h.T.Helper()
	folder := j.await(ctx, "folder ")
	for n, name := range []string{"log beyond its rate", "log beyond its size"} {
		mark := filepath.Join(h.Inside(filepath.Dir(folder), "work"), fmt.Sprint("mark-", n))
		require.Eventually(h.T, func() bool { return exists(mark) }, time.Minute, 20*time.Millisecond)
		var began float64
		h.read(mark, &began)
		info, err := os.Stat(filepath.Join(filepath.Dir(folder), "log"))
		require.NoError(h.T, err)
		const burst, lastLines = 16 * logRate, 192 << 10
		bound := burst + int64((float64(time.Now().UnixNano())/1e9-began)*logRate)
		if n == 1 {
			bound = logBytes
		}
		h.results[name] = openIf(info.Size() > bound+lastLines)
		h.T.Logf("%s: %d bytes, %d allowed", name, info.Size(), bound)
	}
	require.NoError(h.T, j.Client.Post(ctx, "/api/jobs/"+j.Job.ID+"/stop", nil, nil))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unfinished is the content of a file that the flush of a spool would truncate, because its last line has no newline.
const unfinished = "a line\nno line"

// plantSpools creates the files in the agent's folder to which the links in a hostile spool point.
func (h *waysHarness) plantSpools() {
	h.T.Helper()
	agent := h.AgentDir()
	for _, name := range []string{"symbolic-link", "hard-link", "folder-of-another/lock", "folder-of-another/00000001.log", "path-to-the-parent"} {
		path := filepath.Join(agent, "planted", name)
		require.NoError(h.T, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(h.T, os.WriteFile(path, []byte(unfinished), 0o600))
	}
	h.giveToAgent(filepath.Join(agent, "planted"))
	h.known["planted"] = filepath.Join(agent, "planted")
}

// flushTime is how long the flush of a hostile spool may take.
const flushTime = time.Minute

// collectSpool reads the output of flushing the job's spool. It checks that the flush has ended and has not changed
// the planted files.
func (h *waysHarness) collectSpool(ctx context.Context, j *waysJob) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	log, ended := j.rest(ctx)
	h.T.Log(log)
	require.Contains(h.T, log, "left behind")
	h.results["flush: code of its own"] = openIf(strings.Contains(log, "own code ran"))
	for _, name := range []string{"symbolic link", "hard link", "folder of another", "path to the parent", "device", "named pipe", "huge file"} {
		writer, result := strings.ReplaceAll(name, " ", "-"), openWay
		switch {
		case strings.Contains(log, "cannot create "+writer), ended && h.unchanged(writer):
			result = closedWay
		}
		h.results["flush: "+name] = result
	}
}

// rest returns the rest of the job's log. The result ended is false if ctx was done before the log ended.
func (j *waysJob) rest(ctx context.Context) (log string, ended bool) {
	for {
		select {
		case line, more := <-j.lines:
			if !more {
				return log, true
			}
			log += line + "\n"
		case <-ctx.Done():
			return log, false
		}
	}
}

// unchanged reports whether the planted file that a link in the spool points to is unchanged. It returns true if there
// is no such file.
func (h *waysHarness) unchanged(name string) bool {
	h.T.Helper()
	path := filepath.Join(h.AgentDir(), "planted", name)
	if name == "folder-of-another" {
		path = filepath.Join(path, "00000001.log")
	}
	raw, err := os.ReadFile(path)
	return os.IsNotExist(err) || string(raw) == unfinished
}
