package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
)

const content = "0123456789abcdefghij"

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// harness is a folder and a server.
type harness struct {
	t      *testing.T
	root   *os.Root
	dir    string
	url    string
	ranges []string
}

func newHarness(t *testing.T, serve http.HandlerFunc) *harness {
	t.Helper()
	h := &harness{t: t, dir: filepath.Join(t.TempDir(), "out")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ranges = append(h.ranges, r.Header.Get("Range"))
		serve(w, r)
	}))
	t.Cleanup(server.Close)
	h.url = server.URL + "/f?signature=hunter2"
	root, err := Root(h.dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	h.root = root
	return h
}

// file returns the description of a file with the content.
func (h *harness) file() File {
	return File{Path: "a/b.bin", URL: h.url, Size: int64(len(content)), SHA256: digest(content)}
}

// download downloads a file and returns the last count.
func (h *harness) download(f File) (have int64, err error) {
	err = Download(h.t.Context(), nil, h.root, f, func(n int64) { have = n })
	if err != nil {
		require.NotContains(h.t, err.Error(), "hunter2")
	}
	return have, err
}

func (h *harness) part(f File, text string) {
	path := filepath.Join(h.dir, partOf(f))
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o600))
}

// files returns the names and contents of all files below the folder.
func (h *harness) files() map[string]string {
	out := map[string]string{}
	require.NoError(h.t, filepath.WalkDir(h.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(h.dir, path)
		out[name] = string(raw)
		return err
	}))
	return out
}

func ranged(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

func whole(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) }

func TestDownload_continues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		serve  http.HandlerFunc
		part   string
		ranges []string
	}{
		"nothing yet":             {ranged, "", []string{""}},
		"a part":                  {ranged, content[:7], []string{"bytes=7-"}},
		"all but the name":        {ranged, content, nil},
		"more than the file":      {ranged, content + "x", []string{""}},
		"server without ranges":   {whole, content[:7], []string{"bytes=7-"}},
		"damaged part, no ranges": {whole, "rubbish", []string{"bytes=7-"}},
		"nothing yet, no ranges":  {whole, "", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, tc.serve)
			if tc.part != "" {
				h.part(h.file(), tc.part)
			}
			have, err := h.download(h.file())
			require.NoError(t, err)
			require.EqualValues(t, len(content), have)
			require.Equal(t, map[string]string{"a/b.bin": content}, h.files())
			require.Equal(t, tc.ranges, h.ranges)
			require.True(t, Exists(h.root, h.file()))
		})
	}
}

func TestDownload_afterBrokenConnection(t *testing.T) {
	t.Parallel()
	cut := true
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		if cut {
			cut = false
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = io.WriteString(w, content[:5])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		ranged(w, r)
	})
	_, err := h.download(h.file())
	require.True(t, client.Retryable(err), "%v", err)
	require.False(t, Exists(h.root, h.file()))
	_, err = h.download(h.file())
	require.NoError(t, err)
	require.Equal(t, []string{"", "bytes=5-"}, h.ranges)
}

func TestDownload_damagedPart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	h.part(h.file(), "rubbish")
	_, err := h.download(h.file())
	require.ErrorIs(t, err, ErrDigest)
	require.False(t, client.Retryable(err))
	require.Empty(t, h.files(), "nothing wrong remains, and no file appears under the name")
	_, err = h.download(h.file())
	require.NoError(t, err)
}

// Another version of the file, and a file whose name ends like a part, are never mixed with it.
func TestDownload_partsAreOfOneVersion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	other := h.file()
	other.SHA256 = digest("another version")
	h.part(other, content[:7])
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "a/b.bin.part"), []byte("a file of the run"), 0o600))
	_, err := h.download(h.file())
	require.NoError(t, err)
	require.Equal(t, []string{""}, h.ranges)
	require.Equal(t, "a file of the run", h.files()["a/b.bin.part"])
	unknown := h.file()
	unknown.SHA256 = ""
	h.part(unknown, content[:7])
	_, err = h.download(unknown)
	require.NoError(t, err)
	require.Equal(t, []string{"", ""}, h.ranges, "without a digest, nothing shows that a part is of the same version")
}

func TestDownload_empty(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	_, err := h.download(File{Path: "empty", URL: h.url, SHA256: digest("")})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"empty": ""}, h.files())
	require.Empty(t, h.ranges)
}

func TestDownload_refusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		want  string
		retry bool
	}{
		"expired": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`)
		}, "403: AccessDenied Request has expired", false},
		"away":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "503", true},
		"no range": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) }, "416", false},
		"longer":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content+"x") }, errSize.Error(), false},
		"shorter":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content[:9]) }, "9 of 20 bytes", true},
		"another range": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-19/20")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, content)
		}, "another range", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, tc.serve)
			h.part(h.file(), content[:3])
			_, err := h.download(h.file())
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, tc.retry, client.Retryable(err))
			require.False(t, Exists(h.root, h.file()))
			require.NotContains(t, h.files(), "a/b.bin")
		})
	}
	h := newHarness(t, ranged)
	f := h.file()
	for _, address := range []string{"http://h\x7f/?signature=hunter2", "ftp://h/?signature=hunter2", "http://127.0.0.1:1/?signature=hunter2"} {
		f.URL = address
		_, err := h.download(f)
		require.Error(t, err)
	}
}

func TestDownload_staysInFolder(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(h.dir, "link")))
	require.NoError(t, os.Symlink("../..", filepath.Join(h.dir, "up")))
	for _, path := range []string{"", ".", "./", "..", "../x", "a/../../x", "/etc/x", "link/x", "up/x", "a/../..", "x\x00"} {
		f := h.file()
		f.Path = path
		_, err := h.download(f)
		require.Error(t, err, path)
		require.False(t, client.Retryable(err), path)
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
	// A part that is a link leads nowhere either.
	f := h.file()
	f.Path = "linked"
	require.NoError(t, os.Symlink(filepath.Join(outside, "x"), filepath.Join(h.dir, partOf(f))))
	_, err = h.download(f)
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(outside, "x"))
}

// An error of the disk is not tried again.
func TestDownload_diskError(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		full, err = os.Open(os.DevNull) // without this device, a file that is open for reading only
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	h := newHarness(t, ranged)
	d := &download{file: h.file(), out: full, hash: sha256.New(), count: &counter{count: func(int64) {}}}
	// Reading the device would never end.
	body, _, err := open(t.Context(), nil, d.file, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = body.Close() })
	_, err = io.Copy(io.MultiWriter(d.out, d.hash, d.count), body)
	require.Error(t, err)
	require.False(t, client.Retryable(err), "%v", err)
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "a"), nil, 0o600))
	_, err = h.download(h.file())
	require.ErrorContains(t, err, "create the folder")
	require.False(t, client.Retryable(err))
}

func TestDownload_twoAtTheSameTime(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		ranged(w, r)
	})
	first := make(chan error, 1)
	go func() { first <- Download(t.Context(), nil, h.root, h.file(), func(int64) {}) }()
	<-arrived
	_, err := h.download(h.file())
	require.ErrorIs(t, err, ErrBusy)
	require.False(t, client.Retryable(err))
	close(release)
	require.NoError(t, <-first)
	require.Equal(t, map[string]string{"a/b.bin": content}, h.files())
}

func TestDownload_cancelled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = io.WriteString(w, content[:5])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := Download(ctx, nil, h.root, h.file(), func(int64) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, map[string]string{partOf(h.file()): content[:5]}, h.files(), "the next command continues")
}

func TestExists(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	require.False(t, Exists(h.root, h.file()))
	_, err := h.download(h.file())
	require.NoError(t, err)
	require.True(t, Exists(h.root, h.file()))
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "a/b.bin"), bytes.ToUpper([]byte(content)), 0o600))
	require.False(t, Exists(h.root, h.file()), "the same size is not enough")
	_, err = h.download(h.file())
	require.NoError(t, err)
	require.True(t, Exists(h.root, h.file()), "the file is replaced")
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		for _, done := range []bool{true, false} {
			var out bytes.Buffer
			p := &Progress{Out: &out, Terminal: terminal}
			for _, size := range []int64{0, 5, 100 << 20} {
				count, end := p.File("a\x1b[2Jb", size)
				for range 2 { // two tries
					for have := int64(0); have <= size; have += max(size/50, 1) {
						count(have)
					}
				}
				end(done)
			}
			p.Wait() // returns, also for a file of no bytes
			require.NotContains(t, out.String(), "\x1b[2Jb")
			if !terminal && done {
				require.Equal(t, 3+9, strings.Count(out.String(), "\n"), "a line for each tenth, and one at the end: %s", out.String())
			}
		}
	}
	var out bytes.Buffer
	p := &Progress{Out: &out, Terminal: true, Quiet: true}
	count, end := p.File("a", 5)
	count(5)
	end(true)
	p.Wait()
	require.Empty(t, out.String())
}
