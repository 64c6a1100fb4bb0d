package logship

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// ingest is a fake log route. It responds with the given statuses in order, and then with 200. It records
// accepted requests.
type ingest struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	taken    map[string]string
	calls    []string
	header   http.Header
}

func newIngest(t *testing.T, statuses ...int) *ingest {
	t.Helper()
	s := &ingest{statuses: statuses, taken: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *ingest) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header = r.Header
	key := r.Header.Get("Idempotency-Key")
	s.calls = append(s.calls, key)
	status := http.StatusOK
	if len(s.statuses) > 0 {
		status, s.statuses = s.statuses[0], s.statuses[1:]
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "0")
	}
	if status < 300 {
		s.taken[key] = string(body)
	}
	w.WriteHeader(status)
}

func (s *ingest) text(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all strings.Builder
	for seq := 1; ; seq++ {
		body, ok := s.taken["w:"+json.Number(string(rune('0'+seq))).String()]
		if !ok {
			return all.String()
		}
		var p payload
		require.NoError(t, json.Unmarshal([]byte(body), &p))
		require.False(t, p.EOF)
		all.WriteString(strings.Join(p.Chunks, ""))
	}
}

func logOf(t *testing.T, s *ingest, text string) Log {
	t.Helper()
	dir := t.TempDir()
	l := Log{
		Path: filepath.Join(dir, "log"), Journal: filepath.Join(dir, "ship.jsonl"),
		Endpoint: fixed(s.URL + "/api/ingest/"), Token: secret.New("tok"), RunID: "run_1", Writer: "w",
	}
	require.NoError(t, os.WriteFile(l.Path, []byte(text), 0o600))
	return l
}

func shipper(t *testing.T) *Shipper {
	t.Helper()
	return NewShipper(&http.Client{}, clock.Real(), func(int) time.Duration { return time.Millisecond }, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func finished() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestShipper_temporaryErrorsAreRetried(t *testing.T) {
	t.Parallel()
	s := newIngest(t, 503, 500, 429, 408, 200)
	require.NoError(t, shipper(t).Run(t.Context(), logOf(t, s, "a\nb"), finished()))
	require.Equal(t, "a\nb", s.text(t))
	require.Equal(t, []string{"w:1", "w:1", "w:1", "w:1", "w:1"}, s.calls)
	require.Equal(t, "Bearer tok", s.header.Get("Authorization"))
}

func TestShipper_rejectedRangeIsDropped(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 409, 413, 422} {
		s := newIngest(t, status)
		l := logOf(t, s, "a\n")
		ended := make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- shipper(t).Run(t.Context(), l, ended) }()
		require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.calls) == 1 }, time.Minute, time.Millisecond)
		f, err := os.OpenFile(l.Path, os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString("b\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
		close(ended)
		require.NoError(t, <-done)
		require.Equal(t, []string{"w:1", "w:2"}, s.calls, "status %d", status)
	}
}

// TestShipper_journalCutAtEveryByte truncates the journal at every byte, as a kill during a write may do.
func TestShipper_journalCutAtEveryByte(t *testing.T) {
	t.Parallel()
	first := newIngest(t)
	l := logOf(t, first, strings.Repeat("line\n", 3))
	require.NoError(t, shipper(t).Run(t.Context(), l, finished()))
	whole, err := os.ReadFile(l.Journal)
	require.NoError(t, err)
	body := first.taken["w:1"]
	for cut := range len(whole) {
		s := newIngest(t)
		again := logOf(t, s, strings.Repeat("line\n", 3))
		require.NoError(t, os.WriteFile(again.Journal, whole[:cut], 0o600))
		require.NoError(t, shipper(t).Run(t.Context(), again, finished()))
		// Wherever the journal is cut, the range must be sent with its number and the same bytes.
		require.Equal(t, map[string]string{"w:1": body}, s.taken, "cut at %d", cut)
	}
}

func TestShipper_openRangeKeepsItsBytes(t *testing.T) {
	t.Parallel()
	s := newIngest(t, 503, 503, 503)
	l := logOf(t, s, "one\n")
	ctx, cancel := context.WithCancel(t.Context())
	stuck := NewShipper(&http.Client{}, clock.Real(), func(int) time.Duration { cancel(); return time.Hour }, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, stuck.Run(ctx, l, make(chan struct{})), context.Canceled)
	require.NoError(t, os.WriteFile(l.Path, []byte("one\ntwo\n"), 0o600))
	require.NoError(t, shipper(t).Run(t.Context(), l, finished()))
	require.Contains(t, s.taken["w:1"], `"one\n"`)
	require.Contains(t, s.taken["w:2"], `"two\n"`)
}

func TestShipper_missingLog(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "")
	require.NoError(t, os.Remove(l.Path))
	require.NoError(t, shipper(t).Run(t.Context(), l, finished()))
	require.Empty(t, s.calls)
}

func TestCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxRaw)
	for name, c := range map[string]struct {
		data           string
		final, patient bool
		want           int
	}{
		"complete lines":                  {"a\nb\nc", false, true, 4},
		"end of the file":                 {"a\nb\nc", true, false, 5},
		"incomplete line waits":           {"abc", false, true, 0},
		"incomplete line after patience":  {"abc", false, false, 3},
		"incomplete character":            {"ab\xe2\x82", false, false, 2},
		"incomplete character at the end": {"ab\xe2\x82", true, false, 4},
		"long line":                       {long + "x", false, true, maxRaw},
		"control characters":              {strings.Repeat("\x01", maxRaw), true, false, maxRaw / 8},
	} {
		got := cut([]byte(c.data), c.final, c.patient)
		if name == "control characters" {
			require.Less(t, len(encode("run", []byte(c.data[:got]))), maxBody, name)
			require.Positive(t, got)
			continue
		}
		require.Equal(t, c.want, got, name)
	}
}

func FuzzCutLosesNothing(f *testing.F) {
	f.Add([]byte("a\nb"), true)
	f.Add([]byte("\xff\xfe\n\xe2\x82\xac"), false)
	f.Fuzz(func(t *testing.T, data []byte, patient bool) {
		sent := []byte{}
		for rest := data; len(rest) > 0; {
			n := cut(rest, true, patient)
			if n <= 0 || n > len(rest) {
				t.Fatalf("cut returned %d for %d bytes", n, len(rest))
			}
			sent, rest = append(sent, rest[:n]...), rest[n:]
		}
		require.Equal(t, data, sent)
	})
}
