package demo

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// snapshotFolder returns the modification time and content of every file in a folder, by path.
func snapshotFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		out[path] = fmt.Sprint(info.ModTime().UnixNano(), " ", string(raw))
		return err
	}))
	return out
}

func TestRun_folderInUseByDemo(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	o := options(t, "serves", w.URL)
	o.Once = false
	out := &lines{found: make(chan struct{}), until: "Stop:"}
	o.Out = out
	ctx, stop := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- Run(ctx, o) }()
	// Wait until the first demo has finished the loop and serves.
	select {
	case <-out.found:
	case err := <-first:
		require.NoError(t, err)
		require.Fail(t, "the first demo ended by itself")
	}
	require.FileExists(t, filepath.Join(o.Data, "ready.json"))
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(o.Data, "trapped")); return err == nil }, time.Minute, 5*time.Millisecond)
	before := snapshotFolder(t, o.Data)
	for _, once := range []bool{false, true} {
		second := o
		second.Once, second.Out = once, &bytes.Buffer{}
		err := Run(t.Context(), second)
		require.ErrorContains(t, err, fmt.Sprintf("%s is in use by another signalbox demo or dev, process %d, serving on %s; ", o.Data, os.Getpid(), w.URL))
		require.ErrorContains(t, err, "--data")
		require.Empty(t, second.Out.(*bytes.Buffer).String(), "the refused demo must not run a step")
	}
	require.Equal(t, before, snapshotFolder(t, o.Data))
	stop()
	require.NoError(t, <-first, "the first demo must not be affected")
	require.NoError(t, Run(t.Context(), optionsForSameFolder(o)), "another demo must run after the first demo has ended")
}

// optionsForSameFolder returns the options of a demo with Once on the same folder.
func optionsForSameFolder(o Options) Options {
	o.Once, o.Out = true, &bytes.Buffer{}
	return o
}

func TestRun_folderInUseByServer(t *testing.T) {
	t.Parallel()
	o := options(t, "serves", "http://127.0.0.1:1")
	require.NoError(t, os.WriteFile(filepath.Join(o.Data, "signalboxd.log"), []byte("of the running server"), 0o600))
	server, err := localfile.LockFolder(filepath.Join(o.Data, "lock"))
	require.NoError(t, err)
	require.NoError(t, server.SetAddress("http://127.0.0.1:8081"))
	before := snapshotFolder(t, o.Data)
	err = Run(t.Context(), o)
	require.ErrorContains(t, err, fmt.Sprintf("is in use by another signalboxd, process %d, serving on http://127.0.0.1:8081; ", os.Getpid()))
	after := snapshotFolder(t, o.Data)
	delete(after, filepath.Join(o.Data, "demo.lock"))
	require.Equal(t, before, after)
	require.NoError(t, server.Close())
	held, err := occupy(o.Data)
	require.NoError(t, err, "the refused demo must release its lock")
	require.NoError(t, held.Close())
}
