package recipe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// trees is an object store in memory. If err is set, Put returns it.
type trees struct {
	blob.Store

	mu   sync.Mutex
	err  error
	kept map[string]string
}

func (s *trees) Put(_ context.Context, key string, r io.Reader, _ int64, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	raw, err := io.ReadAll(r)
	s.kept[key] = string(raw)
	return err
}

func (s *trees) Get(_ context.Context, key string) (io.ReadCloser, blob.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, ok := s.kept[key]
	if !ok {
		return nil, blob.Info{}, blob.Absent(key)
	}
	return io.NopCloser(strings.NewReader(raw)), blob.Info{Key: key, Size: int64(len(raw))}, nil
}

func (s *trees) SignKnown(_ context.Context, info blob.Info, _ time.Duration) (blob.Signed, error) {
	return blob.Signed{URL: "http://objects/" + info.Key, Method: http.MethodGet}, nil
}

func (s *trees) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// harness is a server with a database and an object store.
type harness struct {
	*Server

	t     *testing.T
	clock *clock.Fake
	trees *trees
	// packages is the number of packages.
	packages int
}

func open(t *testing.T, files fstest.MapFS) *harness {
	t.Helper()
	migrations, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: migrations}).Pool("registry")
	d := &harness{t: t, clock: clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 123456000, time.UTC)), trees: &trees{kept: map[string]string{}}}
	ids := id.NewSource(d.clock, rand.Reader)
	d.Server = &Server{
		Pool: pool, Projects: projects{}, Blobs: d.trees, Seeder: d.seeder(pool, files), Audit: audit.NewLog(d.clock, ids, "registry"),
		Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(d.clock)}, Events: event.NewLog(d.clock, ids, "registry"), Clock: d.clock,
	}
	return d
}

func (d *harness) seeder(pool *pgxpool.Pool, files fstest.MapFS) *Seeder {
	return &Seeder{
		Pool: pool, Blobs: d.trees, Files: files, ManifestName: "recipe.json", Clock: d.clock, Log: slog.New(slog.DiscardHandler), Done: make(chan struct{}),
	}
}

// ship seeds the catalog as a binary with the given files would.
func (d *harness) ship(files fstest.MapFS) {
	d.t.Helper()
	d.Seeder = d.seeder(d.Pool, files)
	require.NoError(d.t, d.Seeder.RunOnce(d.t.Context()))
}

// lock returns the recipe.lock.json of sft/tiny.
func (d *harness) lock(version string) *registryv1.RecipeLockDocument {
	d.t.Helper()
	got, err := d.GetRecipeLock(someone(d.t), &registryv1.GetRecipeLockRequest{Namespace: "sft", Name: "tiny", Version: version})
	require.NoError(d.t, err)
	return got
}

func TestSeeder_Run_retriesUntilObjectStoreAvailable(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	d.trees.fail(errors.New("the object store is unavailable"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Seeder.Run(ctx) }()
	require.NoError(t, d.clock.Await(t.Context(), 1))
	var rows int
	require.NoError(t, d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM recipe`).Scan(&rows))
	require.Zero(t, rows, "no row may refer to a missing tree")
	d.trees.fail(nil)
	d.clock.Advance(mostPause)
	require.NoError(t, d.Seeder.Await(t.Context()))
	list, err := d.ListRecipes(someone(t), &registryv1.ListRecipesRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetRecipes(), 2)
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, d.Seeder.RunOnce(t.Context()), "RunOnce must succeed at any time")
}

func TestRecipeServer_unavailableUntilSeeded(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"list": func() error { _, err := d.ListRecipes(ctx, &registryv1.ListRecipesRequest{}); return err },
		"one": func() error {
			_, err := d.GetRecipe(ctx, &registryv1.GetRecipeRequest{Namespace: "sft", Name: "tiny"})
			return err
		},
		"version": func() error {
			_, err := d.GetRecipeVersion(ctx, &registryv1.GetRecipeVersionRequest{Namespace: "sft", Name: "tiny", Version: "1.0"})
			return err
		},
		"lock": func() error {
			_, err := d.GetRecipeLock(ctx, &registryv1.GetRecipeLockRequest{Namespace: "sft", Name: "tiny", Version: "1.0"})
			return err
		},
	}
	for name, call := range calls {
		err := call()
		require.True(t, fault.Is(err, fault.Unavailable) && fault.HasCode(err, "catalog"), "%s: %v", name, err)
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestGetRecipeLock(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	d.ship(catalog())
	lock := d.lock("1.0")
	recipe, err := d.GetRecipeVersion(someone(t), &registryv1.GetRecipeVersionRequest{Namespace: "sft", Name: "tiny", Version: "1.0"})
	require.NoError(t, err)
	schema, err := canon.Digest(recipe.GetParamsSchema())
	require.NoError(t, err)
	require.True(t, proto.Equal(&registryv1.RecipeLockDocument{
		Api: "v1", Name: "sft/tiny", Version: "1.0", Digest: recipe.GetDigest(), Framework: recipe.GetFramework(), ParamsSchemaDigest: schema,
		CatalogDigest: lock.GetCatalogDigest(), LockedAt: "2026-11-21T09:00:00.123456+00:00",
	}, lock), "%v", lock)
	d.clock.Advance(time.Hour)
	d.ship(catalog())
	require.True(t, proto.Equal(lock, d.lock("1.0")), "a lock is unchanged until the recipe changes")
}

func TestGetRecipeLock_changesWithRecipe(t *testing.T) {
	t.Parallel()
	manifest := func(old, new string) func(fstest.MapFS) {
		return func(f fstest.MapFS) {
			f["sft/tiny/recipe.json"].Data = bytes.Replace(f["sft/tiny/recipe.json"].Data, []byte(old), []byte(new), 1)
		}
	}
	differs := map[string]struct {
		change  func(fstest.MapFS)
		differs func(a, b *registryv1.RecipeLockDocument) bool
	}{
		"runtime": {
			manifest(`"state"`, `"framework":{"runtime_id":"np-2"},"state"`),
			func(a, b *registryv1.RecipeLockDocument) bool {
				return a.GetFramework().GetRuntimeId() != b.GetFramework().GetRuntimeId()
			},
		},
		"parameters": {
			manifest(`"params_schema":{}`, `"params_schema":{"type":"object"}`),
			func(a, b *registryv1.RecipeLockDocument) bool {
				return a.GetParamsSchemaDigest() != b.GetParamsSchemaDigest()
			},
		},
		"code":         {func(f fstest.MapFS) { f["sft/tiny/src/main.py"].Data = []byte("print(1)\n") }, nil},
		"requirements": {func(f fstest.MapFS) { f["sft/tiny/requirements.txt"].Data = []byte("numpy==3\n") }, nil},
		"new file":     {func(f fstest.MapFS) { f["sft/tiny/new.py"] = &fstest.MapFile{} }, nil},
		"file name": {func(f fstest.MapFS) {
			f["sft/tiny/src/other.py"] = f["sft/tiny/src/main.py"]
			delete(f, "sft/tiny/src/main.py")
		}, nil},
	}
	d := open(t, catalog())
	for name, c := range differs {
		d.ship(catalog())
		before := d.lock("1.0")
		changed := catalog()
		c.change(changed)
		d.clock.Advance(time.Minute)
		d.ship(changed)
		after := d.lock("1.0")
		require.NotEqual(t, before.GetDigest(), after.GetDigest(), name)
		require.NotEqual(t, before.GetCatalogDigest(), after.GetCatalogDigest(), name)
		require.NotEqual(t, before.GetLockedAt(), after.GetLockedAt(), "%s: the recipe gets a new lock time", name)
		require.True(t, c.differs == nil || c.differs(before, after), name)
	}
}

func TestGetRecipeLock_otherRecipeChangesCatalogDigestOnly(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	d.ship(catalog())
	before := d.lock("1.0")
	more := catalog()
	more["sft/other/recipe.json"] = &fstest.MapFile{Data: []byte(`{"api":"v1","name":"sft/other","version":"1","state":"active","params_schema":{}}`)}
	d.ship(more)
	after := d.lock("1.0")
	require.NotEqual(t, before.GetCatalogDigest(), after.GetCatalogDigest())
	after.CatalogDigest = before.GetCatalogDigest()
	require.True(t, proto.Equal(before, after))
}

func TestGetRecipeVersion_returnsWithdrawn(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	d.ship(catalog())
	_, err := d.GetRecipe(someone(t), &registryv1.GetRecipeRequest{Namespace: "rl", Name: "big"})
	require.True(t, fault.Is(err, fault.Absent), "no version is active: %v", err)
	got, err := d.GetRecipeVersion(someone(t), &registryv1.GetRecipeVersionRequest{Namespace: "rl", Name: "big", Version: "2"})
	require.NoError(t, err)
	require.Equal(t, "withdrawn", got.GetState(), "old runs still find a withdrawn version")
	for _, path := range [][2]string{{"sft", "none"}, {"", "sft/tiny"}, {"sft/tiny", ""}, {"sft%", "tiny"}} {
		_, err := d.GetRecipe(someone(t), &registryv1.GetRecipeRequest{Namespace: path[0], Name: path[1]})
		require.True(t, fault.Is(err, fault.Absent), "%v: %v", path, err)
	}
}

// headers collects the headers that a call sets.
type headers struct {
	grpc.ServerTransportStream

	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

func TestListRecipes_pages(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	d.ship(catalog())
	for offset, want := range []string{"rl/big", "sft/tiny"} {
		h := &headers{}
		got, err := d.ListRecipes(grpc.NewContextWithServerTransportStream(someone(t), h), &registryv1.ListRecipesRequest{Limit: new(int32(1)), Offset: new(int32(offset))})
		require.NoError(t, err)
		require.Len(t, got.GetRecipes(), 1)
		require.Equal(t, want, got.GetRecipes()[0].GetName())
		require.Equal(t, offset == 0, len(h.sent.Get("x-service-more")) == 1)
	}
	for _, bad := range []int32{0, -1, 501} {
		_, err := d.ListRecipes(someone(t), &registryv1.ListRecipesRequest{Limit: &bad})
		require.True(t, fault.Is(err, fault.Invalid), "%d: %v", bad, err)
	}
}
