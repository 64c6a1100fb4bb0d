package artifact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// keepHarness has a run whose metric has the values by step, and fakes of the other services.
type keepHarness struct {
	*testing.T

	pool    *pgxpool.Pool
	keeper  *Keeper
	freer   *Freer
	values  map[int64]float64
	read    []string // the ranges of steps whose values were read
	used    []string
	away    error
	deleted []string
	freed   int64
	count   int
}

func newKeepHarness(t *testing.T) *keepHarness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	h := &keepHarness{T: t, pool: pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest"), values: map[int64]float64{}}
	addRun(t, h.pool)
	h.exec(`UPDATE run SET artifact_bytes = 1000`)
	h.keeper = &Keeper{Pool: h.pool, Value: h.value}
	h.freer = &Freer{Pool: h.pool, InUse: h.inUse, Remove: h.remove, Freed: func(_ context.Context, n int64) { h.freed += n }}
	return h
}

func (h *keepHarness) exec(sql string, args ...any) {
	h.Helper()
	_, err := h.pool.Exec(h.Context(), sql, args...)
	require.NoError(h, err)
}

func (h *keepHarness) value(_ context.Context, _, key string, from, to int64) (float64, bool, error) {
	h.read = append(h.read, fmt.Sprintf("%s %d-%d", key, max(from, 0), to))
	v, ok := h.values[to]
	return v, ok, h.away
}

func (h *keepHarness) inUse(_ context.Context, all []*Artifact) (found []string, err error) {
	for _, a := range all {
		if slices.Contains(h.used, a.ID) {
			found = append(found, a.ID)
		}
	}
	return found, h.away
}

// remove deletes unused objects like retention.Sweeper.
func (h *keepHarness) remove(ctx context.Context, keys []string) (int64, error) {
	unused, err := UnusedObjects(ctx, h.pool, keys)
	h.deleted = append(h.deleted, unused...)
	return int64(len(unused)), err
}

// add registers a checkpoint. The path selects its object, and an empty format means safetensors.
func (h *keepHarness) add(id string, attempt int, step *int64, path, format string) {
	h.Helper()
	h.count++
	if format == "" {
		format = "safetensors"
	}
	h.exec(`INSERT INTO artifact (id, run_id, attempt, kind, format, step, path, size_bytes, sha256, created_at)
		VALUES ($1, 'run_1', $2, 'checkpoint', $3, $4, 'blob://' || $5::text, 10, 'sum', now() - interval '1 hour' + $6 * interval '1 second')`,
		id, attempt, format, step, path, h.count)
}

// save registers a checkpoint with an object of its own.
func (h *keepHarness) save(step int64) {
	h.Helper()
	id := fmt.Sprintf("art_%03d", step)
	h.add(id, 1, &step, "runs/run_1/1/checkpoint/sha/"+id, "")
}

// apply applies a policy and returns the artifacts that are not removed.
func (h *keepHarness) apply(p Keeping) []string {
	h.Helper()
	_, err := h.keeper.Apply(h.Context(), "run_1", p)
	require.NoError(h, err)
	return h.kept()
}

func (h *keepHarness) kept() (ids []string) {
	h.Helper()
	require.NoError(h, h.pool.QueryRow(h.Context(), `SELECT coalesce(array_agg(id ORDER BY created_at), '{}') FROM artifact WHERE removed_at IS NULL`).Scan(&ids))
	return ids
}

// later moves the removals so far into the past.
func (h *keepHarness) later() {
	h.Helper()
	h.exec(`UPDATE artifact SET removed_at = removed_at - $1::interval - interval '1 second'`, freeAfter)
}

func (h *keepHarness) total() (bytes int64) {
	h.Helper()
	require.NoError(h, h.pool.QueryRow(h.Context(), `SELECT artifact_bytes FROM run`).Scan(&bytes))
	return bytes
}

func TestKeeper_Apply_newestAndBest(t *testing.T) {
	t.Parallel()
	h := newKeepHarness(t)
	h.values = map[int64]float64{10: 3, 20: 1, 30: 2, 40: 1.5, 50: 0.5}
	for step := int64(10); step <= 50; step += 10 {
		h.save(step)
	}
	r, err := h.keeper.Apply(t.Context(), "run_1", Keeping{Last: 2, Best: "val/loss"})
	require.NoError(t, err)
	require.Equal(t, Removed{Count: 2, Bytes: 20}, r)
	require.Equal(t, []string{"art_020", "art_040", "art_050"}, h.kept(), "the lowest value and the newest two")
	require.Equal(t, []string{"val/loss 0-10", "val/loss 11-20", "val/loss 21-30", "val/loss 31-40"}, h.read,
		"each value is that of the steps after the checkpoint before; the metrics of the newest may be on their way")
	h.read = nil
	h.save(60)
	require.Equal(t, []string{"art_050", "art_060"}, h.apply(Keeping{Last: 1, Best: "val/loss"}), "a better one replaces the best")
	require.Equal(t, []string{"val/loss 41-50"}, h.read, "each value is read once")
	require.Equal(t, []string{"art_050", "art_060"}, h.apply(Keeping{Last: 5}), "what was removed stays removed")
}

func TestKeeper_Apply_goalAndTies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		maximize bool
		values   map[int64]float64
		best     string
	}{
		"highest":      {true, map[int64]float64{10: 1, 20: 3, 30: 2}, "art_020"},
		"lowest":       {false, map[int64]float64{10: 1, 20: 3, 30: 2}, "art_010"},
		"newest equal": {true, map[int64]float64{10: 3, 20: 3, 30: 2}, "art_020"},
		"some":         {true, map[int64]float64{20: -5}, "art_020"},
		"none":         {false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newKeepHarness(t)
			h.values = c.values
			for step := int64(10); step <= 40; step += 10 {
				h.save(step)
			}
			want := []string{c.best, "art_040"}
			if c.best == "" {
				want = want[1:]
			}
			require.Equal(t, want, h.apply(Keeping{Last: 1, Best: "m", Maximize: c.maximize}))
		})
	}
}

func TestKeeper_Apply_whatIsNeverRemoved(t *testing.T) {
	t.Parallel()
	h := newKeepHarness(t)
	const dir = "runs/run_1/1/checkpoint/sha/"
	one, two, three := int64(1), int64(2), int64(3)
	h.add("art_a", 1, &one, dir+"a", "tar")
	h.add("art_b", 1, &one, dir+"b", "gguf") // the same checkpoint as art_a
	h.add("art_c", 1, &two, dir+"c", "gguf")
	h.exec(`INSERT INTO artifact (id, run_id, attempt, kind, format, path, size_bytes, sha256, created_at) VALUES
		('art_host', 'run_1', 1, 'checkpoint', 'x', '/data/m', 10, NULL, now()), ('art_export', 'run_1', 1, 'hf_export', 'x', 'blob://x', 10, 's', now()),
		('art_other', 'run_2', 1, 'checkpoint', 'x', 'blob://y', 10, 's', now())`)
	only := func() []string {
		return slices.DeleteFunc(h.apply(Keeping{Last: 1}), func(id string) bool { return slices.Contains([]string{"art_host", "art_export", "art_other"}, id) })
	}
	require.Equal(t, []string{"art_a", "art_c"}, only(), "the newest tar file may be the only one from which training can resume")
	h.add("art_d", 1, &three, dir+"d", "tar")
	h.add("art_e", 1, &three, dir+"e", "gguf")
	require.Equal(t, []string{"art_d", "art_e"}, only(), "both artifacts of a step are one checkpoint")
	h.add("art_f", 2, &three, dir+"f", "tar")
	h.add("art_g", 2, nil, dir+"d", "tar") // the object of art_d
	require.Equal(t, []string{"art_d", "art_e", "art_g"}, only(), "an object that a kept artifact has is not deleted; another attempt saves another checkpoint")
	h.exec(`UPDATE artifact SET kept_at = now() WHERE id = 'art_e'`)
	h.add("art_h", 2, nil, dir+"h", "tar")
	h.add("art_i", 2, nil, dir+"i", "gguf")
	require.Equal(t, []string{"art_e", "art_h", "art_i"}, only(), "an artifact that was in use is kept")
	require.Len(t, h.kept(), 6, "paths on a host, other kinds and other runs do not count")
}

func TestKeeper_Apply_unknownValueIsKept(t *testing.T) {
	t.Parallel()
	h := newKeepHarness(t)
	for step := int64(10); step <= 40; step += 10 {
		h.save(step)
	}
	h.away = errors.New("the metrics are busy")
	_, err := h.keeper.Apply(t.Context(), "run_1", Keeping{Last: 1, Best: "m"})
	require.ErrorIs(t, err, h.away)
	require.Len(t, h.kept(), 4)
	h.exec(`UPDATE artifact SET best_value = 1 WHERE step IN (10, 30)`)
	r, err := h.keeper.remove(t.Context(), "run_1", Keeping{Last: 1, Best: "m"})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Count)
	require.Equal(t, []string{"art_020", "art_030", "art_040"}, h.kept(), "a checkpoint that might be the best one waits for its value")
}

func TestKeeper_Apply_valueArrivesLate(t *testing.T) {
	t.Parallel()
	h := newKeepHarness(t)
	p := Keeping{Last: 1, Best: "m"}
	for step := int64(10); step <= 30; step += 10 {
		h.save(step)
	}
	h.exec(`UPDATE artifact SET created_at = now() + interval '1 second' * (step - 30)`)
	require.Len(t, h.apply(p), 3, "the metrics of the last minute may be on their way")
	h.values[20] = 1
	require.Equal(t, []string{"art_010", "art_020", "art_030"}, h.apply(p))
	h.exec(`UPDATE artifact SET created_at = created_at - interval '1 minute'`)
	require.Equal(t, []string{"art_020", "art_030"}, h.apply(p))
	h.read, h.values[10] = nil, 0
	require.Equal(t, []string{"art_020", "art_030"}, h.apply(p))
	require.Empty(t, h.read, "a value is not read again")
}

func TestFreer_Free(t *testing.T) {
	t.Parallel()
	h := newKeepHarness(t)
	for step := int64(10); step <= 40; step += 10 {
		h.save(step)
	}
	key := func(id string) string { return "runs/run_1/1/checkpoint/sha/" + id }
	h.exec(`INSERT INTO object_hold (key, held_until, bytes) VALUES ($1, now() + interval '1 day', 10)`, key("art_010"))
	require.Equal(t, []string{"art_040"}, h.apply(Keeping{Last: 1}))
	require.NoError(t, h.freer.Free(t.Context()))
	require.Empty(t, h.deleted, "a registration that has read the artifact before may not have ended yet")

	h.later()
	h.away = errors.New("the registry is away")
	require.ErrorIs(t, h.freer.Free(t.Context()), h.away)
	require.Empty(t, h.deleted)
	h.away, h.used = nil, []string{"art_020", "art_elsewhere"}
	require.NoError(t, h.freer.Free(t.Context()))
	require.Equal(t, []string{key("art_010"), key("art_030")}, h.deleted, "an object of a removed checkpoint is not held any more")
	require.Equal(t, []string{"art_020", "art_040"}, h.kept(), "a checkpoint in use is restored")
	require.EqualValues(t, 20, h.freed)
	require.EqualValues(t, 980, h.total(), "the run may store as many bytes again")
	require.Equal(t, []string{"art_020", "art_040"}, h.apply(Keeping{Last: 1}))

	require.NoError(t, h.freer.Free(t.Context()))
	require.Len(t, h.deleted, 2)
	require.EqualValues(t, 20, h.freed)
}

// Each state in which a crash can leave an artifact is finished by the next call.
func TestFreer_Free_afterCrash(t *testing.T) {
	t.Parallel()
	h := newKeepHarness(t)
	for step := int64(10); step <= 40; step += 10 {
		h.save(step)
	}
	h.apply(Keeping{Last: 1})
	h.later()
	remove := h.freer.Remove
	h.freer.Remove = func(context.Context, []string) (int64, error) { return 0, errors.New("crash") }
	require.ErrorContains(t, h.freer.Free(t.Context()), "crash")
	require.EqualValues(t, 1000, h.total(), "no bytes are freed yet")
	h.used = []string{"art_010"} // too late: the model was registered from an artifact that was removed long before
	h.freer.Remove = remove
	require.NoError(t, h.freer.Free(t.Context()))
	require.Len(t, h.deleted, 3)
	require.EqualValues(t, 970, h.total())

	_, err := h.pool.Exec(t.Context(), `UPDATE artifact SET freed_at = NULL WHERE id = 'art_010'`) // deleted, but not recorded
	require.NoError(t, err)
	h.exec(`UPDATE run SET artifact_bytes = 980`)
	require.NoError(t, h.freer.Free(t.Context()))
	require.EqualValues(t, 970, h.total())
}

func TestFreer_Free_objectOfSeveral(t *testing.T) {
	t.Parallel()
	h := newKeepHarness(t)
	const dir = "runs/run_1/1/checkpoint/sha/"
	steps := []int64{1, 2, 3, 4}
	h.add("art_a", 1, &steps[0], dir+"same", "")
	h.add("art_b", 1, &steps[1], dir+"same", "")
	h.add("art_c", 1, &steps[2], dir+"c", "")
	require.Equal(t, []string{"art_c"}, h.apply(Keeping{Last: 1}))
	h.add("art_d", 1, &steps[3], dir+"same", "") // registered after the removal
	h.later()
	require.NoError(t, h.freer.Free(t.Context()))
	require.Empty(t, h.deleted, "another artifact refers to the object")
	require.Zero(t, h.freed)

	// A client that uploads the object again holds it.
	h.exec(`UPDATE artifact SET removed_at = now() - interval '1 hour' WHERE id = 'art_d'`)
	h.exec(`UPDATE artifact SET removed_at = now() - interval '1 hour' WHERE id = 'art_c'`)
	h.freer.Remove = func(ctx context.Context, keys []string) (int64, error) {
		n, err := h.remove(ctx, keys)
		h.exec(`INSERT INTO object_hold (key, held_until) VALUES ($1, now() + interval '1 day')`, dir+"c")
		return n, err
	}
	require.NoError(t, h.freer.Free(t.Context()))
	require.ElementsMatch(t, []string{dir + "same", dir + "c"}, h.deleted)
	require.EqualValues(t, 10, h.freed, "the size of an object counts once, and not that of an object that is being stored again")
	holds := &Holds{Pool: h.pool, For: time.Hour, Quota: &groupcommit.Quota{}}
	before := h.total()
	_, err := holds.Hold(t.Context(), "run_1", dir+"c", "c", 10)
	require.NoError(t, err)
	require.EqualValues(t, 10+groupcommit.ArtifactCost, h.total()-before, "the object counts again")
	h.freer.Remove = h.remove
	h.exec(`DELETE FROM object_hold`)
	require.NoError(t, h.freer.Free(t.Context()))
	require.EqualValues(t, 20, h.freed)
	require.True(t, strings.HasPrefix(h.deleted[0], ObjectPrefix))
}

func TestArtifact_Available(t *testing.T) {
	t.Parallel()
	now := time.Now()
	require.NoError(t, (&Artifact{}).Available())
	d := &Downloads{Blobs: noSigning{}}
	_, err := d.Sign(t.Context(), &Artifact{ID: "art_1", SHA256: "sum", Path: "blob://x", RemovedAt: &now})
	require.ErrorContains(t, err, "artifact art_1 is a checkpoint that was removed because of checkpoint.keep_last of its job")
}

type noSigning struct{}

func (noSigning) SignKnown(context.Context, blob.Info, time.Duration) (blob.Signed, error) {
	return blob.Signed{}, errors.New("a removed checkpoint has no download")
}
