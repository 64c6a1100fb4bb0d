package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestServer_Stop_hangingServer(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	require.NoError(t, syscall.Kill(s.PID(), syscall.SIGSTOP))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, s.Stop(ctx), "did not stop in time")
	require.False(t, serves(s.PID(), filepath.Join(cfg.Dir, "data")))
	require.NoError(t, s.Stop(t.Context()), "a second Stop does nothing")
	require.Equal(t, "1", query(t, begin(t, cfg), `SELECT '1'`), "the folder is not locked")
}

func TestStart_cancelledLeavesNoServer(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	require.NoError(t, s.Stop(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	f, err := readPidFile(filepath.Join(cfg.Dir, "data"))
	require.ErrorIs(t, err, os.ErrNotExist, "%+v", f)
	require.Equal(t, "1", query(t, begin(t, cfg), `SELECT '1'`))
}

func TestStart_wrongPassword(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "password"), []byte("another\n"), 0o600))
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "with the password of "+cfg.Dir)
	require.NotContains(t, err.Error(), "another")
	f, err := readPidFile(filepath.Join(cfg.Dir, "data"))
	require.ErrorIs(t, err, os.ErrNotExist, "no server may be left running: %+v", f)
}

func TestCluster_password_fromEntropy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &cluster{cfg: Config{Dir: dir, Entropy: bytes.NewReader(bytes.Repeat([]byte{0xab}, 32))}}
	made, err := c.password()
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ab", 32), made.Reveal())
	read, err := c.password()
	require.NoError(t, err)
	require.Equal(t, made.Reveal(), read.Reveal())

	c = &cluster{cfg: Config{Dir: t.TempDir(), Entropy: iotest.ErrReader(errors.New("dry"))}}
	_, err = c.password()
	require.ErrorContains(t, err, "dry")
	require.NoFileExists(t, filepath.Join(c.cfg.Dir, "password"))
}

func TestStart_freshRemovesOldCluster(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	execute(t, s, `CREATE TABLE kept (word text)`)
	require.NoError(t, s.Stop(t.Context()))
	cfg.Fresh = true
	require.Equal(t, "0", query(t, begin(t, cfg), `SELECT count(*)::text FROM pg_tables WHERE tablename = 'kept'`))
}

func TestStart_rotatesLargeLog(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	c := &cluster{cfg: cfg}
	require.NoError(t, os.WriteFile(c.logPath(), []byte("old\n"), 0o600))
	require.NoError(t, os.Truncate(c.logPath(), 10<<20+1))
	begin(t, cfg)
	info, err := os.Stat(c.logPath())
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(1<<20))
	require.FileExists(t, c.logPath()+".1")
}

func TestStart_folderCannotBeCreated(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	file := filepath.Join(cfg.Dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	cfg.Dir = filepath.Join(file, "below")
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "create the Postgres folder")
}
