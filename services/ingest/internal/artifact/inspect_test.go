package artifact

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// watched is an object store that records the key of each call.
type watched struct {
	objects

	keys   []string
	held   heldKeys
	signed []blob.SignOptions
	fails  error
}

func (w *watched) Stat(ctx context.Context, key string) (blob.Info, error) {
	w.keys = append(w.keys, key)
	if w.fails != nil {
		return blob.Info{}, w.fails
	}
	return w.objects.Stat(ctx, key)
}

func (w *watched) SignPut(_ context.Context, key string, o blob.SignOptions) (blob.Signed, error) {
	w.keys, w.signed = append(w.keys, key), append(w.signed, o)
	return blob.Signed{URL: key}, w.fails
}

func TestRegistrar_Inspect_foreignKeyNeverReachesStore(t *testing.T) {
	t.Parallel()
	w := &watched{objects: objects{}}
	r := &Registrar{Blobs: w, Holds: &w.held}
	own := "runs/run_1/1/checkpoint/" + sum + "/m"
	for _, path := range []string{
		blob.URI("runs/run_2/1/checkpoint/" + sum + "/m"), blob.URI("runs/run_1x/1/checkpoint/" + sum + "/m"), blob.URI("runs/run_1/../run_2/checkpoint/" + sum + "/m"),
		blob.URI("runs//run_1/1/checkpoint/" + sum + "/m"), blob.URI(own) + "/x", blob.URI(own) + "/../m", blob.URI("other/checkpoint/" + sum + "/m"), blob.URI("projects/prj/x"), blob.URI(""), blob.URI("runs/run_1/"),
		blob.URI("runs/run_1/1/hf_export/" + sum + "/m"), "s3://bucket/" + own, "gs://b/k", "az://b/k", "http://h/k", "file:///etc/passwd", "BLOB://" + own, "blob:" + own, ":",
		"blob:///" + own, "C:\\m", "javascript:1",
	} {
		for _, container := range []bool{true, false} {
			_, err := r.Inspect(t.Context(), &report.Artifact{RunID: "run_1", Kind: "checkpoint", Path: path}, container)
			require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "path"), "%s: %v", path, err)
		}
	}
	require.Empty(t, w.keys)
}

func TestRegistrar_Inspect_hostPathIsOnlyRecorded(t *testing.T) {
	t.Parallel()
	r := &Registrar{Holds: &heldKeys{}, Blobs: &watched{fails: errors.New("unexpected call of the store")}}
	for path, ok := range map[string]bool{
		"/data/out/m": true, "out/m": true, "m": true, "a..b/..c/d..": true, "./m": true, "": true,
		"..": false, "../m": false, "a/../m": false, "a/..": false, `a\..\m`: false, `..\m`: false, "/../m": false,
	} {
		size := int64(5)
		a, err := r.Inspect(t.Context(), &report.Artifact{RunID: "run_1", Kind: "checkpoint", Format: "f", Path: path, Size: &size}, false)
		require.Equal(t, ok, err == nil, "%s: %v", path, err)
		if ok {
			require.Equal(t, &Artifact{RunID: "run_1", Kind: "checkpoint", Format: "f", Path: path, Size: 5}, a)
			require.Nil(t, a.Digest(), "a path on a host has no digest")
			require.Empty(t, a.URI())
			continue
		}
		require.True(t, fault.HasCode(err, "path"), path)
	}
}

func TestRegistrar_Inspect_takesSizeAndDigestFromStore(t *testing.T) {
	t.Parallel()
	key := "runs/run_1/3/hf_export/" + sum + "/m.tar"
	w := &watched{objects: objects{key: {Size: 7, SHA256: sum}}}
	r := &Registrar{Blobs: w, Holds: &w.held}
	inspect := func(size *int64) (*Artifact, error) {
		return r.Inspect(t.Context(), &report.Artifact{RunID: "run_1", Kind: "hf_export", Path: blob.URI(key), Size: size}, true)
	}
	seven, eight := int64(7), int64(8)
	for _, size := range []*int64{nil, &seven} {
		a, err := inspect(size)
		require.NoError(t, err)
		require.Equal(t, []any{int64(7), sum, true}, []any{a.Size, *a.Digest(), a.Packed()}, "size and digest come from the store")
	}
	_, err := inspect(&eight)
	require.True(t, fault.HasCode(err, "size_mismatch"), "%v", err)
	require.Contains(t, fault.From(err).Text(), "has 7 bytes, but size_bytes is 8")
	w.fails = fault.New(fault.Dependency, "", "away")
	_, err = inspect(nil)
	require.True(t, fault.Is(err, fault.Dependency), "an unavailable store must not be reported as a refusal: %v", err)
}

func TestRegistrar_URL_bindsSizeAndDigest(t *testing.T) {
	t.Parallel()
	w := &watched{}
	u := &Upload{RunID: "run_1", Attempt: 2, Kind: "checkpoint", Path: "x/m.gguf", Size: 9, SHA256: sum}
	signed, err := (&Registrar{Blobs: w, Holds: &w.held}).URL(t.Context(), u)
	require.NoError(t, err)
	require.Equal(t, "runs/run_1/2/checkpoint/"+sum+"/m.gguf", signed.URL)
	require.Equal(t, []blob.SignOptions{{Size: 9, SHA256: sum}}, w.signed)
	require.Equal(t, heldKeys{signed.URL}, w.held, "the object is held until it is registered")
	w.fails = fault.New(fault.TooLarge, "", "too large")
	_, err = (&Registrar{Blobs: w, Holds: &w.held}).URL(t.Context(), u)
	require.True(t, fault.Is(err, fault.TooLarge), "%v", err)
}

func TestWrite_concurrentRegistrationsGiveOneArtifact(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	s := &Store{Pool: pool}
	a := &Artifact{RunID: "run_1", Kind: "checkpoint", Format: "f", Path: "p", Size: 1}
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]int{}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for i := range 10 {
		all.Go(func() {
			err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
				return Write(a, "art_"+strings.Repeat("x", i+1))(ctx, tx, &pgx.Batch{}, &groupcommit.Run{ID: "run_1", Now: now})
			})
			found, ferr := s.Find(t.Context(), a)
			if err != nil || ferr != nil {
				t.Error(err, ferr)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[found.ID]++
		})
	}
	all.Wait()
	require.Len(t, ids, 1, "an artifact without a step is also registered only once")
	_, more, err := s.List(t.Context(), "run_1", request.Page{Limit: 5})
	require.NoError(t, err)
	require.False(t, more)
}
