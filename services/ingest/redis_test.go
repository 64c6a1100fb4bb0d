package ingest_test

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/test/redistest"
)

// server is a redis-server process on a free port.
type server struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, addr: l.Addr().String()}
	require.NoError(t, l.Close())
	s.start()
	t.Cleanup(func() { s.signal(syscall.SIGKILL); _ = s.cmd.Wait() })
	return s
}

func (s *server) start() {
	_, port, err := net.SplitHostPort(s.addr)
	require.NoError(s.t, err)
	s.cmd = exec.Command(redistest.Program(s.t), "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.t.TempDir())
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, s.cmd.Start(), "redis-server must be installed")
	require.Eventually(s.t, func() bool { return s.stat("cmdstat_info") >= 0 }, time.Minute, 20*time.Millisecond)
}

func (s *server) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// stat returns how often the server has run a command, or -1 if the server does not reply.
func (s *server) stat(name string) int {
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	info, err := c.Info(s.t.Context(), "commandstats").Result()
	if err != nil {
		return -1
	}
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, name+":calls="); ok {
			n, _ := strconv.Atoi(rest[:strings.IndexByte(rest, ',')])
			return n
		}
	}
	return 0
}

func TestRedis_usedButOptional(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	h := open(t)
	cfg := ingest.Config{RedisURL: secret.New("redis://" + s.addr + "/0")}
	require.NoError(t, cfg.Validate())
	writer, reader := h.replica(cfg), h.replica(cfg)
	run := writer.train()
	stream, err := reader.public.FollowLogs(t.Context(), &ingestv1.FollowLogsRequest{Id: run.run})
	require.NoError(t, err)
	n := 0
	// send posts log lines and waits until a follower on the other replica has received each line. If ingest waited for
	// Redis while Redis is stopped, send would block forever.
	send := func(times int) {
		for range times {
			n++
			run.post("logs", fmt.Sprintf("w:%d", n), fmt.Sprintf(`"chunks":["%d\n"]`, n))
			e, err := stream.Recv()
			require.NoError(t, err)
			require.EqualValues(t, n, e.GetLine().GetSeq())
		}
	}
	require.Eventually(t, func() bool { return s.stat("cmdstat_subscribe") >= 2 }, time.Minute, 20*time.Millisecond)
	send(20)
	require.Positive(t, s.stat("cmdstat_publish"))

	s.signal(syscall.SIGSTOP)
	send(20)
	s.signal(syscall.SIGCONT)
	send(5)
	s.signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
	send(20)

	s.start()
	require.Eventually(t, func() bool {
		send(1)
		return s.stat("cmdstat_publish") > 0 && s.stat("cmdstat_subscribe") >= 2
	}, time.Minute, 200*time.Millisecond, "Redis is used again after a restart")
	run.close()
	e, err := stream.Recv()
	require.NoError(t, err)
	require.EqualValues(t, n, e.GetEof().GetSeq())
}

// Validate accepts exactly the URLs with which the service starts.
func TestConfig_Validate_redisURL(t *testing.T) {
	t.Parallel()
	h := open(t)
	for url, valid := range map[string]bool{
		"": true, "redis://h": true, "redis://u:p@h:6379/2": true, "rediss://h:1/": true, "unix:///run/redis.sock": false, "redis://": false,
		"redis://h/name": false, "redis://h?db=1": false, "redis://h:port": false,
	} {
		cfg := ingest.Config{RedisURL: secret.New(url)}
		err := cfg.Validate()
		require.Equal(t, valid, err == nil, "%s: %v", url, err)
		_, err = ingest.New(t.Context(), cfg, ingest.Deps{Pool: h.db.Pool(ingest.Name), Clock: h.clock})
		require.Equal(t, valid, err == nil, "%s: %v", url, err)
	}
}

func TestConfig_invalidRedisURLHidesPassword(t *testing.T) {
	t.Parallel()
	require.Error(t, (&ingest.Config{RedisURL: secret.New("http://x")}).Validate())
	h := open(t)
	_, err := ingest.New(t.Context(), ingest.Config{RedisURL: secret.New("redis://:hunter2%zz@h")}, ingest.Deps{Pool: h.db.Pool(ingest.Name), Clock: h.clock})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}
