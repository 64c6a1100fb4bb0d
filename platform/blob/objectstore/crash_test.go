package objectstore_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

const large = 1 << 20

// If a process is killed while it writes an object, the key stays free, no partial object is visible, and another
// process can put the object. The child process is this test binary.
func TestStore_Put_killedProcess(t *testing.T) {
	if root := os.Getenv("FILE_TEST_CHILD_ROOT"); root != "" {
		putForever(t, root)
		return
	}
	t.Parallel()
	r := open(t, nil)
	cmd := exec.Command(os.Args[0], "-test.run=^TestStore_Put_killedProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), "FILE_TEST_CHILD_ROOT="+r.root)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "half"; {
		continue
	}
	_, err = r.Stat(t.Context(), "run/model")
	require.True(t, fault.Is(err, fault.Absent), "a partial object is not visible: %v", err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	left, err := filepath.Glob(filepath.Join(r.root, ".aside", "*", "*"))
	require.NoError(t, err)
	require.Len(t, left, 1, "the child must have begun to write")
	_, err = r.Stat(t.Context(), "run/model")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	found, err := r.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, found)
	r.put(t, "run/model", strings.Repeat("x", large))
}

func putForever(t *testing.T, root string) {
	t.Helper()
	store, err := objectstore.OpenFiles(objectstore.FileConfig{
		Root: root, Limit: 2 * large, Clock: clock.Real(), IDs: id.NewSource(clock.Real(), rand.Reader),
		PublicURL: func() string { return "" }, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	body := strings.Repeat("x", large)
	never := readerFunc(func([]byte) (int, error) {
		fmt.Println("half")
		select {}
	})
	_ = store.Put(t.Context(), "run/model", io.MultiReader(strings.NewReader(body[:large/2]), never), large, sum(body))
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(p []byte) (int, error) { return r(p) }

// Delete removes empty parent folders while Put creates them.
func TestStore_concurrentPutAndDelete(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			key := fmt.Sprintf("deep/er/%d", n)
			for range 15 {
				if err := r.Put(t.Context(), key, bytes.NewBufferString("x"), 1, sum("x")); err != nil {
					t.Errorf("put: %v", err)
				}
				if _, err := r.Stat(t.Context(), key); err != nil {
					t.Errorf("stat: %v", err)
				}
				if err := r.Delete(t.Context(), key); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	wg.Wait()
	found, err := r.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, found)
}

// While another goroutine deletes and puts an object, a read finds the object or reports that it is missing. It never
// reports a failure of the store.
func TestStore_readDuringDelete(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 60 {
			err := errors.Join(r.Put(t.Context(), "a/b", bytes.NewBufferString("x"), 1, sum("x")), r.Delete(t.Context(), "a/b"))
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for looks := 0; ; looks++ {
		select {
		case <-done:
			require.Positive(t, looks)
			return
		default:
		}
		_, err := r.Stat(t.Context(), "a/b")
		require.True(t, err == nil || fault.Is(err, fault.Absent), "%v", err)
		body, _, err := r.Get(t.Context(), "a/b")
		require.True(t, err == nil || fault.Is(err, fault.Absent), "%v", err)
		if err == nil {
			raw, err := io.ReadAll(body)
			require.NoError(t, err, "an open object stays readable after deletion")
			require.Equal(t, "x", string(raw))
			require.NoError(t, body.Close())
		}
		_, err = r.List(t.Context(), "", "", 10)
		require.NoError(t, err)
	}
}

func TestStore_Put_concurrentWritersOfOneKey(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	for round := range 5 {
		key := fmt.Sprintf("race/%d", round)
		errs := make(chan error, 2)
		for _, body := range []string{"one", "two"} {
			go func() { errs <- r.Put(t.Context(), key, bytes.NewBufferString(body), 3, sum(body)) }()
		}
		first, second := <-errs, <-errs
		if first != nil {
			first, second = second, first
		}
		require.NoError(t, first)
		require.True(t, fault.HasCode(second, blob.CodeDiffers), "%v", second)
		body, info, err := r.Get(t.Context(), key)
		require.NoError(t, err)
		raw, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Equal(t, sum(string(raw)), info.SHA256)
	}
	left, err := os.ReadDir(filepath.Join(r.root, ".aside"))
	require.NoError(t, err)
	require.Empty(t, left, "the losing writer has removed its upload")
}

// A signed URL is a credential, so it is accepted only if it is unchanged.
func TestHandler_rejectsRewrittenURLs(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "down/x", "text")
	signed, err := r.SignGet(t.Context(), "down/x", 0)
	require.NoError(t, err)
	get := func(url string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusOK, get(signed.URL))
	digest := sum("text")
	for name, change := range map[string][2]string{
		"plus sign before size":   {"size=", "size=%2B"},
		"zero before size":        {"size=", "size=0"},
		"space before size":       {"size=", "size=%20"},
		"line break after size":   {"size=4", "size=4%0A"},
		"zero before expires":     {"expires=", "expires=0"},
		"digest in upper case":    {digest, strings.ToUpper(digest)},
		"line break in signature": {"signature=", "signature=%0D%0A"},
		"double slash":            {"down/x", "down//x"},
		"encoded slash":           {"down/x", "down%2Fx"},
		"encoded letter":          {"down/x", "down/%78"},
		"dot segment":             {"down/x", "down/./x"},
		"trailing slash":          {"down/x", "down/x/"},
	} {
		variant := strings.Replace(signed.URL, change[0], change[1], 1)
		require.NotEqual(t, signed.URL, variant, name)
		require.Equal(t, http.StatusForbidden, get(variant), "%s: %s", name, variant)
	}
}

func TestStore_Stat_emptyObjectFolder(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	require.NoError(t, os.Mkdir(filepath.Join(r.root, "a@"), 0o700))
	_, err := r.Stat(t.Context(), "a")
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	require.ErrorContains(t, err, "the folder of a is empty")
	require.NoError(t, r.Delete(t.Context(), "a"), "Delete repairs the store")
	_, err = r.Stat(t.Context(), "a")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestStore_List_canceledContext(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.List(ctx, "", "", 10)
	require.ErrorIs(t, err, context.Canceled)
}

func TestStore_List_ignoresStrayFiles(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "a/b", "x")
	for _, stray := range []string{"README", "a/notes.txt", ".hidden"} {
		require.NoError(t, os.WriteFile(filepath.Join(r.root, stray), []byte("x"), 0o600))
	}
	found, err := r.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "a/b", found[0].Key)
}
