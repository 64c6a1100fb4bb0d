package ingest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// program is a Python program that reports data of each kind with the SDK, except nodes and rollouts.
const program = `
import os, pathlib
import signalbox

out = pathlib.Path(os.environ["SERVICE_JOB_WORKDIR"]) / "out"
out.mkdir()
(out / "model.txt").write_text("weights")
with signalbox.init() as run:
    run.starting()
    run.hparams({"lr": 0.1, "model": {"width": 64, "nan": float("nan")}})
    run.environment()
    run.running()
    for step in range(50):
        run.log({"train": {"loss": 1.0 / (step + 1)}, "bad": float("inf")}, step=step)
    run.text("a line\nand another")
    run.validation(50, [{"user": "1+1", "assistant": "2", "reward": 1.0, "tokens": 3}], avg_reward=1.0, accuracy=1.0)
    run.hardware([{"node": "n0", "gpu": 0, "key": "util", "value": 0.5}])
    run.benchmark("sums", "exact_match", 1.0, version="1", n=10)
    print(run.artifact(out, kind="hf_export", format="safetensors", step=50))
    print(run.artifact(out / "model.txt", kind="checkpoint", format="text", step=50))
`

// report runs a Python program that reports to the replica as the run, and returns its output.
func (h *harness) report(r *replica, run *training, program string) string {
	h.t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/api/ingest/", r.handler)
	mux.Handle(objectstore.Prefix, h.blobs.Handler())
	server := httptest.NewUnstartedServer(mux)
	// The public listener of an installation is guarded, too.
	server.Listener = httpguard.JSONErrors(server.Listener, func() string { return "req_1" })
	server.Start()
	h.t.Cleanup(server.Close)
	h.publicURL.Store(server.URL)
	source, err := filepath.Abs("../../sdk/python/src")
	require.NoError(h.t, err)
	cmd := exec.CommandContext(h.t.Context(), "python3", "-c", program)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+source, "SERVICE_JOB_ENABLED=1", "SERVICE_JOB_ENDPOINT="+server.URL+"/api/ingest",
		"SERVICE_JOB_RUN_ID="+run.run, "SERVICE_JOB_TOKEN="+run.token, "SERVICE_JOB_SPOOL_DIR="+h.t.TempDir(), "SERVICE_JOB_WORKDIR="+h.t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(h.t, err, string(out))
	return string(out)
}

func TestPythonReporter(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	h.report(r, run, program)

	require.Equal(t, []string{"starting:", "running:", "succeeded:"}, h.jobs.reported)
	require.Equal(t, []string{"1 a line", "1 and another"}, run.lines())
	series, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Keys: []string{"train.loss"}})
	require.NoError(t, err)
	require.Len(t, series.GetSeries()[0].GetPoints(), 50)
	params, err := r.public.GetHparams(t.Context(), &ingestv1.GetHparamsRequest{Id: run.run})
	require.NoError(t, err)
	require.JSONEq(t, `{"lr":0.1,"model.width":64,"model.nan":"NaN"}`, string(params.GetParams()))
	samples, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run})
	require.NoError(t, err)
	require.JSONEq(t, `{"tokens":3}`, string(samples.GetSamples()[0].GetExtra()))
	artifacts, err := r.public.ListArtifacts(t.Context(), &ingestv1.ListArtifactsRequest{Id: run.run})
	require.NoError(t, err)
	require.Len(t, artifacts.GetArtifacts(), 2)
	require.EqualValues(t, len("weights"), artifacts.GetArtifacts()[1].GetSizeBytes())
	require.Equal(t, []int{1, 1, 1}, []int{count(t, h, "record"), count(t, h, "hardware_batch"), count(t, h, "benchmark_score")})
	for stream, writers := range run.watermark() {
		require.Len(t, writers, 1, stream)
	}
}

// oversized is a Python program whose reports no request can hold. The second time, it sends them nevertheless, as an
// older reporter does. The last lines are those of a client without any reporter.
const oversized = `
import json, os, urllib.error, urllib.request
import signalbox
from signalbox import limits

def train(step):
    run, errors = signalbox.init(), []
    for call in (lambda: run.hparams({"lr": step, "prompt": "x" * 8_500_000}), run.flush,
                 lambda: run.validation(step, [{"user": "x" * 9_000_000}]), run.flush,
                 lambda: run.log({"m": 1.0}, step=step), run.flush, run.finish):
        try:
            call()
        except signalbox.IngestError as err:
            if not any(err is known for known in errors):
                errors.append(err)
    print(step, *(err.status for err in errors))

train(1)
limits.BULK_BYTES = 1 << 30
train(2)
for size in 1 << 20, 8_500_000, 20_000_000:
    for route in "hparams", "logs", "nope":
        request = urllib.request.Request(os.environ["SERVICE_JOB_ENDPOINT"] + "/" + route, b" " * (size + 1),
            {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["SERVICE_JOB_TOKEN"]})
        try:
            urllib.request.urlopen(request)
        except urllib.error.HTTPError as err:
            print(route, err.code)
`

func TestPythonReporter_oversizedReports(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	want := []string{
		"1 413 413", "2 413 413", "hparams 422", "logs 413", "nope 404", "hparams 413", "logs 413", "nope 404", "hparams 413", "logs 413", "nope 404",
	}
	require.Equal(t, want, strings.Split(strings.TrimSpace(h.report(r, run, oversized)), "\n"))
	series, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Keys: []string{"m"}})
	require.NoError(t, err)
	require.Len(t, series.GetSeries()[0].GetPoints(), 2, "later reports arrive")
}

// The reporter refuses reports that are too large for the routes, so it must know the limits of the routes.
func TestPythonReporter_knowsLimits(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	out := h.report(r, run, `
import signalbox
from signalbox import limits, wire
for stream in wire.STREAMS:
    print(wire.ROUTES.get(stream, stream), limits.BULK_BYTES if stream in limits.BULK else limits.USUAL_BYTES)
`)
	for line := range strings.Lines(out) {
		var route string
		var most int
		_, err := fmt.Sscan(line, &route, &most)
		require.NoError(t, err, line)
		for size, tooLarge := range map[int]bool{most: false, most + 1: true} {
			req := httptest.NewRequest(http.MethodPost, "/api/ingest/"+route, strings.NewReader(strings.Repeat(" ", size)))
			req.Header.Set("Authorization", "Bearer "+run.token)
			rec := httptest.NewRecorder()
			r.handler.ServeHTTP(rec, req)
			require.Equal(t, tooLarge, rec.Code == http.StatusRequestEntityTooLarge, "%s: %d bytes: %d", route, size, rec.Code)
		}
	}
}
