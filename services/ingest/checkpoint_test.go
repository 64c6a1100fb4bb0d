package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

func (j *jobs) FindArtifactsInUse(_ context.Context, in *jobspeerv1.FindArtifactsInUseRequest, _ ...grpc.CallOption) (*jobspeerv1.FindArtifactsInUseResponse, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.searched++
	if j.away != nil {
		return nil, j.away
	}
	out := &jobspeerv1.FindArtifactsInUseResponse{}
	for _, a := range in.GetArtifacts() {
		if j.inUse[a.GetArtifactId()] == a.GetRunId() {
			out.ArtifactIds = append(out.ArtifactIds, a.GetArtifactId())
		}
	}
	return out, nil
}

// save uploads and registers a checkpoint, and returns its id and its key in the object store.
func (t *training) save(step int) (id, key string) {
	t.r.h.t.Helper()
	uri := t.upload("checkpoint", fmt.Sprintf("step-%d.tar", step), bytes.Repeat([]byte{byte(step)}, 1000))
	a := t.post("artifact", "", fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"safetensors","step":%d`, uri, step))
	return a["id"].(string), strings.TrimPrefix(uri, "blob://")
}

// artifacts returns the artifacts of the run, and the ids of those that are not removed.
func (t *training) artifacts() (all []*ingestv1.Artifact, kept []string) {
	t.r.h.t.Helper()
	list, err := t.r.public.ListArtifacts(t.r.h.t.Context(), &ingestv1.ListArtifactsRequest{Id: t.run})
	require.NoError(t.r.h.t, err)
	for _, a := range list.GetArtifacts() {
		if a.GetRemovedAt() == nil {
			kept = append(kept, a.GetId())
		}
	}
	return list.GetArtifacts(), kept
}

// free runs the worker that deletes the files of removed checkpoints, as if the removals were an hour old, until done.
func (r *replica) free(done func() bool) {
	t := r.h.t
	t.Helper()
	_, err := r.h.db.Pool(ingest.Name).Exec(t.Context(), `UPDATE artifact SET removed_at = removed_at - interval '1 hour'`)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	for _, w := range r.service.Workers() {
		if w.Name == "ingest.checkpoints" {
			go func() { ended <- w.Run(ctx) }()
		}
	}
	require.Eventually(t, done, 20*time.Second, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

func (h *harness) hasObject(key string) bool {
	h.t.Helper()
	_, err := h.blobs.Stat(h.t.Context(), key)
	if fault.Is(err, fault.Absent) {
		return false
	}
	require.NoError(h.t, err)
	return true
}

func (j *jobs) setAway(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.away = err
}

func (j *jobs) searches() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.searched
}

// A job keeps its newest two checkpoints and the best one. The others are removed at once, and their files are deleted later.
func TestCheckpointPolicy(t *testing.T) {
	t.Parallel()
	h := open(t)
	reader := sdkmetric.NewManualReader()
	h.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	r := h.replica(ingest.Config{ObjectDays: 1}, "ingest.checkpoints")
	run := r.train()
	run.grant.Keeping = &jobspeerv1.CheckpointKeeping{Last: 2, Best: "val/acc", Maximize: true}
	other := r.train()
	ids, keys := make([]string, 6), make([]string, 6)
	for i, acc := range []float64{0.2, 0.9, 0.4, 0.5, 0.6, 0.3} {
		run.post("metrics", "", points(point("val/acc", 10*i+5, acc)))
		ids[i], keys[i] = run.save(10*i + 10)
		other.save(10*i + 10)
	}
	all, kept := run.artifacts()
	require.Equal(t, []string{ids[1], ids[4], ids[5]}, kept, "the newest two and the one with the highest accuracy")
	require.Len(t, all, 6, "a removed checkpoint stays in the list")
	require.EqualValues(t, 1000, all[0].GetSizeBytes())
	_, kept = other.artifacts()
	require.Len(t, kept, 6, "a job without the policy keeps everything")

	// Nothing can be done with a removed checkpoint, also while its file still exists.
	require.True(t, h.hasObject(keys[0]))
	_, err := r.registry.GetArtifact(t.Context(), &ingestpeerv1.GetArtifactRequest{RunId: run.run, ArtifactId: ids[0]})
	require.True(t, fault.HasCode(err, "artifact_removed"), "%v", err)
	_, err = r.public.ListArtifactDownloads(t.Context(), &ingestv1.ListArtifactDownloadsRequest{Id: run.run, ArtifactId: ids[0]})
	require.True(t, fault.HasCode(err, "artifact_removed"), "%v", err)
	files, err := r.public.ListRunDownloads(t.Context(), &ingestv1.ListRunDownloadsRequest{Id: run.run})
	require.NoError(t, err)
	require.Equal(t, "artifact_removed", files.GetFiles()[0].GetReason())
	require.Nil(t, files.GetFiles()[0].Url)
	require.Nil(t, files.GetFiles()[0].Sha256)
	require.NotNil(t, files.GetFiles()[1].Url)

	// A model was registered from the third one before it was removed. While the registry is away, nothing is deleted.
	h.jobs.mu.Lock()
	h.jobs.inUse = map[string]string{ids[2]: run.run}
	h.jobs.mu.Unlock()
	h.jobs.setAway(fault.New(fault.Unavailable, "", "the registry is away"))
	r.free(func() bool { return h.jobs.searches() > 0 })
	for _, key := range keys {
		require.True(t, h.hasObject(key))
	}
	h.jobs.setAway(nil)
	r.free(func() bool { return freedBytes(t, reader) == 2000 })
	require.False(t, h.hasObject(keys[0]))
	require.False(t, h.hasObject(keys[3]))
	_, kept = run.artifacts()
	require.Equal(t, []string{ids[1], ids[2], ids[4], ids[5]}, kept, "the registered one is restored")
	for _, i := range []int{1, 2, 4, 5} {
		require.True(t, h.hasObject(keys[i]))
	}
	var counted, others int64
	const sums = `SELECT (SELECT artifact_bytes FROM run WHERE id = $1), (SELECT artifact_bytes FROM run WHERE id = $2)`
	require.NoError(t, h.db.Pool(ingest.Name).QueryRow(t.Context(), sums, run.run, other.run).Scan(&counted, &others))
	require.EqualValues(t, 2000, others-counted, "the run may upload as much again")

	ids[0], _ = run.save(70)
	_, kept = run.artifacts()
	require.Equal(t, []string{ids[1], ids[2], ids[5], ids[0]}, kept, "what is registered is not removed again")
	_, err = r.registry.GetArtifact(t.Context(), &ingestpeerv1.GetArtifactRequest{RunId: run.run, ArtifactId: ids[2]})
	require.NoError(t, err)
}

func freedBytes(t *testing.T, reader *sdkmetric.ManualReader) (sum int64) {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == "ingest_checkpoint_freed_bytes_total" {
				sum += m.Data.(metricdata.Sum[int64]).DataPoints[0].Value
			}
		}
	}
	return sum
}

// The failure of the removal does not fail the registration, and the next checkpoint repeats the removal.
func TestCheckpointPolicy_failure(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{}, "ingest.checkpoints")
	run := r.train()
	run.grant.Keeping = &jobspeerv1.CheckpointKeeping{Last: 1}
	first, _ := run.save(10)
	alter := func(sql string) {
		_, err := h.db.OwnerPool(ingest.Name).Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	alter(`ALTER TABLE artifact ADD CONSTRAINT away CHECK (removed_at IS NULL)`)
	second, _ := run.save(20)
	_, kept := run.artifacts()
	require.Equal(t, []string{first, second}, kept)
	alter(`ALTER TABLE artifact DROP CONSTRAINT away`)
	third, _ := run.save(30)
	_, kept = run.artifacts()
	require.Equal(t, []string{third}, kept)

	// The jobs service does not know the third one yet, so the second may be where the next attempt resumes.
	h.jobs.mu.Lock()
	h.jobs.control.refuses = fault.New(fault.Unavailable, "", "the jobs service is away")
	h.jobs.mu.Unlock()
	uri := run.upload("checkpoint", "m.tar", []byte("x"))
	a := run.call(http.MethodPost, "artifact", "", run.body(fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"safetensors","step":40`, uri)))
	require.Equal(t, http.StatusServiceUnavailable, a.status, string(a.body))
	_, kept = run.artifacts()
	require.Len(t, kept, 2, "nothing is removed before the jobs service knows the new checkpoint")
}
