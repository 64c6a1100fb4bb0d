package artifact

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// artifactID returns the id of artifact number n.
func artifactID(n int) string { return fmt.Sprintf("art_%026d", n) }

func TestFile_Place(t *testing.T) {
	t.Parallel()
	step := int64(5)
	long := strings.Repeat("é", 200) + ".gguf" // more bytes than a name may have
	for given, want := range map[string]string{
		"m.gguf":                        "checkpoint-5/m.gguf",
		"out/モデル/重み 5.bin":              "checkpoint-5/out/モデル/重み 5.bin",
		"..m/.hidden":                   "checkpoint-5/..m/.hidden",
		"straße/größe μσı.m":            "checkpoint-5/art_1/größe μσı.m", // the dotless i is an I in upper case
		"straße/größe μσ.m":             "checkpoint-5/straße/größe μσ.m",
		"Größe/Äpfel.m":                 "checkpoint-5/art_1/Äpfel.m",
		"ς":                             "checkpoint-5/art_1/ς",
		"\u212a":                        "checkpoint-5/art_1/\u212a", // the sign of Kelvin
		"cafe\u0301":                    "checkpoint-5/art_1/cafe\u0301",
		"caf\u00e9":                     "checkpoint-5/caf\u00e9",
		"com10/const/null/auxiliary.x":  "checkpoint-5/com10/const/null/auxiliary.x",
		"out/m.":                        "checkpoint-5/art_1/m",
		"out. /m":                       "checkpoint-5/art_1/m",
		" .":                            "checkpoint-5/art_1/file",
		`what?*"<>|`:                    "checkpoint-5/art_1/what______",
		"con":                           "checkpoint-5/art_1/_con",
		"out/NUL.tar.gz":                "checkpoint-5/art_1/_NUL.tar.gz",
		"out/aux .txt":                  "checkpoint-5/art_1/_aux .txt",
		"lpt9/m.gguf":                   "checkpoint-5/art_1/m.gguf",
		"COM¹":                          "checkpoint-5/art_1/_COM¹",
		"":                              "checkpoint-5/art_1/object",
		"..":                            "checkpoint-5/art_1/object",
		"/etc/passwd":                   "checkpoint-5/art_1/passwd",
		"../m.gguf":                     "checkpoint-5/art_1/m.gguf",
		"out/../m.gguf":                 "checkpoint-5/art_1/m.gguf",
		"./m.gguf":                      "checkpoint-5/art_1/m.gguf",
		"out//m.gguf":                   "checkpoint-5/art_1/m.gguf",
		"out/":                          "checkpoint-5/art_1/out",
		`c:\out\m.gguf`:                 "checkpoint-5/art_1/m.gguf",
		"a:b":                           "checkpoint-5/art_1/a_b",
		"a\nb":                          "checkpoint-5/art_1/a_b",
		artifactID(7) + "/m":            "checkpoint-5/art_1/m",
		"ART_" + artifactID(7)[4:]:      "checkpoint-5/art_1/ART_" + artifactID(7)[4:],
		long:                            "checkpoint-5/art_1/" + strings.Repeat("é", 125) + ".gguf",
		strings.Repeat("a/", 256):       "checkpoint-5/art_1/a",
		strings.Repeat("é/", 255) + "m": "checkpoint-5/" + strings.Repeat("é/", 255) + "m",
	} {
		f := &File{Artifact: Artifact{ID: "art_1", Kind: "checkpoint", Step: &step, Given: given, Path: "blob://runs/r/1/checkpoint/sum/object", SHA256: sum}}
		require.Equal(t, want, f.Place(), given)
	}
	taken := &File{Artifact: Artifact{ID: "art_1", Kind: "merged_model", Given: "out/m.gguf"}, Clashes: true}
	require.Equal(t, "merged_model/art_1/m.gguf", taken.Place())
}

// Whatever names and steps a run gives its artifacts, all files fit into one folder, also if case is ignored.
func TestStore_Files_placesAreDistinct(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	random := rand.New(rand.NewPCG(draw.Seed(t), 1))
	words := []string{"a", "A", "b", "B", "é", "É", "e\u0301", "ab", "a.b", "..", "", "5", artifactID(1)}
	const artifacts = 600
	for n := range artifacts {
		var name *string
		if random.IntN(10) > 0 {
			segments := make([]string, 1+random.IntN(3))
			for i := range segments {
				segments[i] = words[random.IntN(len(words))]
			}
			name = new(strings.Join(segments, "/"))
		}
		step := []*int64{nil, new(int64(0)), new(int64(5)), new(int64(-5))}[random.IntN(4)]
		_, err := pool.Exec(t.Context(), `INSERT INTO artifact (id, run_id, attempt, kind, format, step, path, size_bytes, sha256, name, created_at)
			VALUES ($1::text, 'run_1', 1, $2, '', $3, 'blob://' || $1::text || '/m', 1, '', $4, now())`, artifactID(n), kindOf(random), step, name)
		require.NoError(t, err)
	}
	s := &Store{Pool: pool}
	placed, folders := map[string]bool{}, map[string]bool{}
	plain, after := 0, ""
	for more := true; more; {
		var page []*File
		page, more, err = s.Files(t.Context(), "run_1", after, request.Page{Limit: 100})
		require.NoError(t, err)
		for _, f := range page {
			require.Greater(t, f.ID, after)
			after = f.ID
			place := norm.NFC.String(strings.ToLower(f.Place()))
			require.False(t, placed[place], "%s is the path of two files", place)
			placed[place] = true
			for i, c := range place {
				if c == '/' {
					folders[place[:i]] = true
				}
			}
			if !strings.Contains(place, "/"+f.ID+"/") {
				plain++
			}
		}
	}
	require.Len(t, placed, artifacts)
	for place := range placed {
		require.False(t, folders[place], "%s is the path of a file and of a folder", place)
	}
	require.Greater(t, plain, artifacts/20, "most names that nothing speaks against are kept")
}

// kindOf returns a kind of artifacts.
func kindOf(random *rand.Rand) string { return []string{"checkpoint", "merged_model"}[random.IntN(2)] }

// planner records the plans of the queries that a store makes.
type planner struct {
	*pgxpool.Pool

	plans []string
}

func (p *planner) explain(ctx context.Context, sql string, args []any) error {
	rows, err := p.Pool.Query(ctx, `EXPLAIN (ANALYZE, TIMING OFF) `+sql, args...)
	if err != nil {
		return err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	p.plans = append(p.plans, strings.Join(lines, "\n"))
	return err
}

func (p *planner) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := p.explain(ctx, sql, args); err != nil {
		return nil, err
	}
	return p.Pool.Query(ctx, sql, args...)
}

func (p *planner) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	_ = p.explain(ctx, sql, args)
	return p.Pool.QueryRow(ctx, sql, args...)
}

var _ pg.Querier = (*planner)(nil)

// A page costs the same in a run with many artifacts, also if all are of one kind and step.
func TestStore_Files_usesIndexes(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	d := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	pool := d.Pool("ingest")
	_, err = pool.Exec(t.Context(), `INSERT INTO artifact (id, run_id, attempt, kind, format, step, path, size_bytes, sha256, name, created_at)
		SELECT 'art_' || lpad(n::text, 26, '0'), 'run_' || n % 40, 1, 'checkpoint', '', 5, n::text, 1, '', 'out/' || n || '/m', now() FROM generate_series(1, 60000) n`)
	require.NoError(t, err)
	_, err = d.OwnerPool("ingest").Exec(t.Context(), `ANALYZE artifact`)
	require.NoError(t, err)
	p := &planner{Pool: pool}
	s := &Store{Pool: p}
	page, more, err := s.Files(t.Context(), "run_1", artifactID(20_000), request.Page{Limit: 500})
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, artifactID(20_001), page[0].ID)
	require.False(t, page[499].Clashes)
	sealed, err := s.Sealed(t.Context(), "run_1")
	require.NoError(t, err)
	require.False(t, sealed)
	require.Len(t, p.plans, 2)
	for _, plan := range p.plans {
		require.NotContains(t, plan, "Seq Scan", plan)
	}
	require.Contains(t, p.plans[0], "artifact_id_idx")
	require.Contains(t, p.plans[0], "artifact_name_idx")
	require.Contains(t, p.plans[1], "artifact_withheld_idx")
}
