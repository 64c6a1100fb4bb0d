package ingest_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
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

func TestPythonReporter(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	mux := http.NewServeMux()
	mux.Handle("/api/ingest/", r.handler)
	mux.Handle(objectstore.Prefix, h.blobs.Handler())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	h.publicURL.Store(server.URL)
	source, err := filepath.Abs("../../sdk/python/src")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "python3", "-c", program)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+source, "SERVICE_JOB_ENABLED=1", "SERVICE_JOB_ENDPOINT="+server.URL+"/api/ingest",
		"SERVICE_JOB_RUN_ID="+run.run, "SERVICE_JOB_TOKEN="+run.token, "SERVICE_JOB_SPOOL_DIR="+t.TempDir(), "SERVICE_JOB_WORKDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))

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
