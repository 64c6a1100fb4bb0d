package scale

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	fewFiles = 10
	// uploadsAtOnce is the number of files that a client of these tests uploads at the same time.
	uploadsAtOnce = 16
)

// pushFiles commits a dataset version with n files in the given folder and returns the version's reference. The files
// have random bytes, so that none of them is in a cache.
func (h *harness) pushFiles(ctx context.Context, t *testing.T, name, folder string, n, total int) (ref string) {
	t.Helper()
	random := mathrand.NewChaCha8(sha256.Sum256([]byte(name)))
	data, listed := map[string][]byte{}, make([]map[string]any, n)
	for i := range listed {
		raw := make([]byte, total/n)
		_, _ = random.Read(raw)
		sum := sha256.Sum256(raw)
		path := folder + fmt.Sprintf("part-%05d.bin", i)
		data[path] = raw
		listed[i] = map[string]any{"path": path, "size_bytes": len(raw), "sha256": hex.EncodeToString(sum[:])}
	}
	api := h.loop.Client
	var dataset struct{ ID string }
	require.NoError(t, api.Post(ctx, "/api/datasets", map[string]any{"name": name, "format": "webdataset"}, &dataset))
	var made struct {
		Uploads []struct {
			Path, URL, Method string
			Headers           map[string]string
		}
	}
	versions := "/api/datasets/" + dataset.ID + "/versions"
	// A response has the URLs of a limited number of files. The next response has the URLs of files that are still
	// missing.
	for left := n; left > 0; left -= len(made.Uploads) {
		made.Uploads = nil
		require.NoError(t, api.Post(ctx, versions, map[string]any{"version": "v1", "files": listed}, &made))
		require.NotEmpty(t, made.Uploads)
		var group errgroup.Group
		group.SetLimit(uploadsAtOnce)
		for _, u := range made.Uploads {
			group.Go(func() error { return api.Upload(ctx, u.Method, u.URL, u.Headers, data[u.Path]) })
		}
		require.NoError(t, group.Wait())
	}
	return h.commit(ctx, t, versions+"/v1/commit")
}

// commit commits a version and returns its reference. On a busy machine with an S3 server, a commit may take longer
// than a request may last. commit then repeats the request, which continues the commit.
func (h *harness) commit(ctx context.Context, t *testing.T, path string) (ref string) {
	t.Helper()
	var committed struct{ State, Ref string }
	const tries = 4
	for try := 1; ; try++ {
		err := h.loop.Client.Post(ctx, path, nil, &committed)
		var refused *client.Error
		if errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable && try < tries {
			t.Logf("scale: attempt %d to commit was cut: %v", try, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "ready", committed.State)
		return committed.Ref
	}
}

// bind submits a command that reads the dataset.
func (h *harness) bind(ctx context.Context, t *testing.T, name, ref string, command ...string) *e2eflow.Loop {
	t.Helper()
	l := &e2eflow.Loop{Client: h.loop.Client, Clock: h.loop.Clock, Timeout: h.loop.Timeout, Name: name}
	job := testenv.Command(ctx, h.Installation, l, command...)
	if ref != "" {
		job["spec"].(map[string]any)["bindings"] = map[string]any{"datasets": map[string]string{"train": ref}}
	}
	require.NoError(t, l.Submit(ctx, job))
	return l
}

// startTime returns the time from the submission of a job that binds the dataset to the start of the job's process.
func (h *harness) startTime(ctx context.Context, t *testing.T, name, ref string) float64 {
	t.Helper()
	l := h.bind(ctx, t, name, ref, "true")
	require.NoError(t, l.AwaitEnd(ctx))
	var times struct {
		Created time.Time `json:"created_at"`
		Running time.Time `json:"executor_running_at"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID, nil, &times))
	require.False(t, times.Running.IsZero())
	return times.Running.Sub(times.Created).Seconds()
}

// startWithManyFiles compares how long an attempt takes to start, with a dataset of many files and with a dataset of
// ten. Both datasets have the same total size. startWithManyFiles tries several total sizes.
func (h *harness) startWithManyFiles(ctx context.Context, t *testing.T) {
	t.Helper()
	many := size(200, 10_000)
	h.startTime(ctx, t, "environment", "")
	for _, mib := range []int{10, 100, 256}[:size(1, 3)] {
		var few, most []float64
		for round := range size(1, 3) {
			name := fmt.Sprintf("%d-%d", mib, round)
			few = append(few, h.startTime(ctx, t, "few-"+name, h.pushFiles(ctx, t, "few-"+name, "", fewFiles, mib<<20)))
			most = append(most, h.startTime(ctx, t, "many-"+name, h.pushFiles(ctx, t, "many-"+name, "", many, mib<<20)))
		}
		const goal = 3
		ratio := median(most) / median(few)
		report(t, ratio <= goal, "start of an attempt with %d MiB: %.2f s in %d files, %.2f s in %d files, ratio %.1f (at most %d)",
			mib, median(few), fewFiles, median(most), many, ratio, goal)
	}
}

// worksWithManyFiles starts ten works with many files each at the same time, and requires that their node stays
// connected and that each runs in its first attempt. Half of the works have files that cannot be packed together, so
// that the specs of these works are long.
func (h *harness) worksWithManyFiles(ctx context.Context, t *testing.T) {
	t.Helper()
	const works = 10
	many := size(50, 10_000)
	refs := make([]string, works)
	for i := range refs {
		folder := strings.Repeat("deep/", i%2*40) // files nested in more than 31 folders are not packed
		refs[i] = h.pushFiles(ctx, t, fmt.Sprintf("beside-%d", i), folder, many, size(1, 10)<<20)
	}
	session := func() (number int64, silent time.Duration) {
		require.NoError(t, h.db.QueryRow(ctx, `SELECT session, clock_timestamp() - last_seen_at FROM jobs.node`).Scan(&number, &silent))
		return number, silent
	}
	before, _ := session()
	began := h.loop.Clock.Now()
	loops := make([]*e2eflow.Loop, works)
	for i, ref := range refs {
		loops[i] = h.bind(ctx, t, fmt.Sprintf("beside-%d", i), ref, "sleep", "3600")
		t.Cleanup(func() {
			_ = h.loop.Client.Post(context.WithoutCancel(ctx), "/api/jobs/"+loops[i].Job.ID+"/stop", nil, nil)
		})
	}
	var longest time.Duration
	h.Until(ctx, "ten works with many files run", func() bool {
		number, silent := session()
		require.Equal(t, before, number, "the node must not have reconnected")
		longest = max(longest, silent)
		running := 0
		require.NoError(t, h.db.QueryRow(ctx, `SELECT count(*) FROM jobs.work WHERE phase = 'running' AND attempt = 1 AND job_id IN
			(SELECT id FROM jobs.job WHERE name LIKE 'beside-%')`).Scan(&running))
		return running == works
	})
	took := clock.Since(h.loop.Clock, began)
	const goal = 30 * time.Second // a third of the time after which a node is lost
	report(t, longest <= goal, "%d works with %d files each run after %.1f s; the node stayed connected, at most %.1f s without a heartbeat (goal %s)",
		works, many, took.Seconds(), longest.Seconds(), goal)
}
