package demo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// options returns the options of a demo with a fake server, which behaves according to the given mode and reports the
// given address as its own.
func options(t *testing.T, mode, address string) Options {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.MkdirAll(data, 0o700))
	for name, text := range map[string]string{"mode": mode, "address": address} {
		require.NoError(t, os.WriteFile(filepath.Join(data, name), []byte(text), 0o600))
	}
	script, err := filepath.Abs("testdata/signalboxd.sh")
	require.NoError(t, err)
	return Options{Once: true, Data: data, Listen: "127.0.0.1:8080", Server: script, Out: &bytes.Buffer{}, Clock: clock.Real()}
}

// startServer starts the server and waits until it handles signals as its mode requires.
func startServer(t *testing.T, o Options) *server {
	t.Helper()
	s, err := start(t.Context(), o, "/the/password")
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(o.Data, "trapped")); return err == nil }, time.Minute, 5*time.Millisecond)
	return s
}

func alive(pid int) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !bytes.Contains(raw, []byte(") Z "))
}

func TestKeepPassword_generatedOnce(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "new", "data")
	first, err := keepPassword(data)
	require.NoError(t, err)
	require.True(t, first.fresh)
	require.GreaterOrEqual(t, len(first.text.Reveal()), 20)
	require.Equal(t, filepath.Join(data, "demo-password"), first.file)
	info, err := os.Stat(first.file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	second, err := keepPassword(data)
	require.NoError(t, err)
	require.False(t, second.fresh)
	require.True(t, first.text.Equal(second.text))
	require.NotEqual(t, first.note(), second.note())
	require.Contains(t, second.note(), second.file)
	other, err := keepPassword(t.TempDir())
	require.NoError(t, err)
	require.False(t, other.text.Equal(first.text))
}

func TestKeepPassword_emptyFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "demo-password"), []byte("\n"), 0o600))
	p, err := keepPassword(data)
	require.NoError(t, err)
	require.True(t, p.fresh)
	require.NotEmpty(t, p.text.Reveal())
}

func TestUnusableFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := occupy(filepath.Join(file, "data"))
	require.ErrorContains(t, err, "create the data folder")
	data := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, "demo-password"), 0o700))
	_, err = keepPassword(data)
	require.ErrorContains(t, err, "read the password")
}

func TestServer_startAndStop(t *testing.T) {
	t.Parallel()
	o := options(t, "serves", "http://127.0.0.1:1")
	require.NoError(t, os.WriteFile(filepath.Join(o.Data, "ready.json"), []byte(`{"address":"of the last start"}`), 0o600))
	s := startServer(t, o)
	require.Equal(t, "http://127.0.0.1:1", s.Address)
	pid := s.cmd.Process.Pid
	require.True(t, alive(pid))
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group, "Ctrl-C in the terminal must reach only the demo")
	require.NoError(t, s.stop())
	require.False(t, alive(pid))
	require.NoError(t, s.stop(), "a second stop must not be an error")
	log, err := os.ReadFile(s.log)
	require.NoError(t, err)
	require.Contains(t, string(log), "password file /the/password")
	require.Contains(t, string(log), "ended in order")
}

func TestStart_failureShowsEndOfLog(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]string{
		"fails":   {"ended during its start", "the address 127.0.0.1:8080 is in use by another process"},
		"rubbish": {"read the ready file"},
	} {
		_, err := start(t.Context(), options(t, mode, ""), "")
		for _, text := range want {
			require.ErrorContains(t, err, text, mode)
		}
	}
	o := options(t, "serves", "")
	o.Server = filepath.Join(o.Data, "absent")
	_, err := start(t.Context(), o, "")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStart_interrupted(t *testing.T) {
	t.Parallel()
	o := options(t, "mute", "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := start(ctx, o, ""); done <- err }()
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(o.Data, "trapped")); return err == nil }, time.Minute, 5*time.Millisecond)
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	log, readErr := os.ReadFile(filepath.Join(o.Data, "signalboxd.log"))
	require.NoError(t, readErr)
	require.Contains(t, string(log), "ended in order")
}

func TestServer_stop_killsProcessGroup(t *testing.T) {
	t.Parallel()
	o := options(t, "obstinate", "http://127.0.0.1:1")
	s := startServer(t, o)
	raw, err := os.ReadFile(filepath.Join(o.Data, "child"))
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	require.NoError(t, err)
	require.True(t, alive(child))
	s.grace = 200 * time.Millisecond
	began := time.Now()
	require.ErrorContains(t, s.stop(), "was killed")
	require.GreaterOrEqual(t, time.Since(began), s.grace, "the server must get its grace period before it is killed")
	require.False(t, alive(s.cmd.Process.Pid))
	require.Eventually(t, func() bool { return !alive(child) }, time.Minute, 5*time.Millisecond)
}

func TestServer_wait_serverEnds(t *testing.T) {
	t.Parallel()
	o := options(t, "serves", "http://127.0.0.1:1")
	s := startServer(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.wait(ctx), "the end of ctx must not be an error")
	require.NoError(t, os.WriteFile(filepath.Join(o.Data, "crash"), nil, 0o600))
	err := s.wait(t.Context())
	require.ErrorContains(t, err, "the server ended")
	require.ErrorContains(t, err, "panic: out of memory")
	require.NoError(t, s.stop())
}

func TestServer_explain_showsEndOfLog(t *testing.T) {
	t.Parallel()
	s := &server{log: filepath.Join(t.TempDir(), "log")}
	cause := os.ErrDeadlineExceeded
	require.Equal(t, cause, s.explain(cause), "without a log, the error must be unchanged")
	require.NoError(t, os.WriteFile(s.log, []byte(" \n"), 0o600))
	require.Equal(t, cause, s.explain(cause))
	require.NoError(t, os.WriteFile(s.log, []byte("first\n"+strings.Repeat("x", 3*tailBytes)+"\nlast\n"), 0o600))
	err := s.explain(cause)
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "last")
	require.NotContains(t, err.Error(), "first")
	require.Less(t, len(err.Error()), tailBytes+500)
}
