package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/test/blobtest"
	"github.com/signalbox-dev/signalbox/test/redistest"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestLoopOnS3 trains a model with an S3 server as object store, and serves it with both engines.
func TestLoopOnS3(t *testing.T) {
	ctx := t.Context()
	c := blobtest.StartGateway(t).Bucket(t, "signalbox")
	s := testenv.Single(t, testenv.Options{Env: map[string]string{
		"SERVICE_BLOB_DRIVER": "s3", "SERVICE_BLOB_S3_ENDPOINT": c.Endpoint, "SERVICE_BLOB_S3_BUCKET": c.Bucket,
		"SERVICE_BLOB_S3_REGION": c.Region, "SERVICE_BLOB_S3_ACCESS_KEY": c.AccessKey,
		"SERVICE_BLOB_S3_SECRET_KEY": c.SecretKey.Reveal(), "SERVICE_BLOB_S3_PLAINTEXT": "true", "SERVICE_BLOB_S3_PATH_STYLE": "true",
	}})
	l := testenv.Train(ctx, t, s)
	testenv.Serve(ctx, t, s, l)
	keys := bucket(ctx, t, c)
	for _, prefix := range []string{"recipes/", "projects/", "runs/" + l.Job.RunID + "/"} {
		require.Contains(t, keys, prefix, "the objects must be in the bucket")
	}
	require.NoDirExists(t, filepath.Join(s.Dir, "data", "objects"), "no object may be in the data folder")
	t.Run("second engine", func(t *testing.T) { serveWithSecondEngine(ctx, t, s, l) })
}

// bucket returns the keys in the bucket, one per line.
func bucket(ctx context.Context, t *testing.T, c conf.S3) string {
	t.Helper()
	m, err := minio.New(c.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey.Reveal(), ""), Region: c.Region})
	require.NoError(t, err)
	var keys []string
	for o := range m.ListObjects(ctx, c.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		require.NoError(t, o.Err)
		keys = append(keys, o.Key)
	}
	return strings.Join(keys, "\n")
}

// redisServer is a Redis server for one test.
type redisServer struct {
	program, addr string
	cmd           *exec.Cmd
}

// newRedis starts a Redis server.
func newRedis(t *testing.T) *redisServer {
	t.Helper()
	r := &redisServer{program: redistest.Program(t), addr: freeAddress(t)}
	t.Cleanup(r.kill)
	r.start(t)
	return r
}

func (r *redisServer) start(t *testing.T) {
	t.Helper()
	_, port, _ := strings.Cut(r.addr, ":")
	r.cmd = exec.Command(r.program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	r.cmd.Dir = t.TempDir()
	require.NoError(t, r.cmd.Start())
	require.True(t, eventually(t.Context(), 10*time.Second, func() bool { return r.info(t) != "" }), "Redis did not start")
}

func (r *redisServer) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func (r *redisServer) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	require.NoError(t, r.cmd.Process.Signal(sig))
}

// info returns the server's statistics of received commands, or "" if the server does not respond.
func (r *redisServer) info(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: r.addr, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	return c.Info(ctx, "commandstats").Val()
}

// TestLoopWithRedis trains models while a Redis server is running, is killed, runs again and is frozen.
func TestLoopWithRedis(t *testing.T) {
	ctx := t.Context()
	r := newRedis(t)
	s := testenv.Single(t, testenv.Options{Env: map[string]string{"SERVICE_REDIS_URL": "redis://" + r.addr + "/0"}})
	t.Run("running", func(t *testing.T) {
		l := testenv.Train(ctx, t, s)
		testenv.Serve(ctx, t, s, l)
		info := r.info(t)
		require.Contains(t, info, "cmdstat_publish:calls=", "the installation must use Redis")
		t.Logf("redis: %s", strings.Join(strings.Fields(info), " "))
	})
	t.Run("killed in the middle", func(t *testing.T) { trainWithFault(ctx, t, s, r.kill) })
	r.start(t)
	t.Run("running again", func(t *testing.T) {
		trainWithFault(ctx, t, s, func() {})
		require.True(t, eventually(ctx, 30*time.Second, func() bool { return strings.Contains(r.info(t), "cmdstat_publish") }), "the installation must use Redis again")
	})
	t.Run("frozen in the middle", func(t *testing.T) { trainWithFault(ctx, t, s, func() { r.signal(t, syscall.SIGSTOP) }) })
	r.signal(t, syscall.SIGCONT)
}

// trainWithFault trains a model, calls the function fault after the first metric, and follows the run to its end.
func trainWithFault(ctx context.Context, t *testing.T, s *testenv.Installation, fault func()) {
	t.Helper()
	l := s.Loop(ctx)
	submitLesson(ctx, t, l)
	done := make(chan error, 1)
	points, hit := 0, make(chan struct{}, 1)
	go func() {
		done <- l.FollowMetrics(ctx, func(e2eflow.Point) {
			if points++; points == 1 {
				hit <- struct{}{}
			}
		})
	}()
	select {
	case <-hit:
		fault()
	case err := <-done:
		require.Fail(t, "no metric arrived", fmt.Sprint(err))
	}
	require.NoError(t, l.AwaitEnd(ctx), s.Tail())
	require.NoError(t, <-done)
	require.Greater(t, points, 20, "the stream of metrics must continue until the end of the run")
	require.Equal(t, 1, l.Job.Attempt)
	var lines []e2eflow.LogLine
	require.NoError(t, l.FollowLogs(ctx, func(line e2eflow.LogLine) { lines = append(lines, line) }))
	s.RequireTrainingLines(ctx, l, lines)
}

// submitLesson submits the short training that these tests use.
func submitLesson(ctx context.Context, t *testing.T, l *e2eflow.Loop) {
	t.Helper()
	lesson := e2eflow.OneDigit()
	rows, err := lesson.Rows(1)
	require.NoError(t, err)
	dataset, err := l.PushDataset(ctx, "v1", "additions.jsonl", rows)
	require.NoError(t, err)
	spec, err := l.Spec(ctx, dataset, lesson.Hparams, 1)
	require.NoError(t, err)
	require.NoError(t, l.Submit(ctx, spec))
}
