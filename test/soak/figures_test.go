package soak_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/soak"
)

// size is the number of rows of a table or of files in a folder, and their total size in bytes. The size of a table
// includes its indexes.
type size struct{ n, bytes int64 }

func (s size) String() string { return fmt.Sprintf("%d, %d KiB", s.n, s.bytes>>10) }

// figures are the sizes of the installation's tables and folders at one time.
type figures struct {
	// tables has an entry for each table of soak.Tables. folders has one for each folder of the data folder, except the
	// folder of the database.
	tables, folders map[string]size
	// aged is the total size of the tables whose ages the test has shortened. kept is the number of rows of all other
	// tables: the audit log, the records of runs, and responses that are kept for a day.
	aged size
	kept int64
	// objects is the size of the object store's folder. works is the size of the files that works left behind.
	objects, works size
}

func (f figures) String() string {
	return fmt.Sprintf("rows %v (and %d rows whose age is not shortened), objects %v, works %v", f.aged, f.kept, f.objects, f.works)
}

// undivided returns the tables with an age that the test cannot shorten: those whose age counts from the end of a fixed
// lifetime, such as the thirty days of a refresh token, and revocations, which the database keeps a week longer than
// the journals.
func undivided() []string {
	return []string{"auth.session", "auth.refresh_token", "jobs.ingest_token", "revocation"}
}

func (h *harness) measure() figures {
	h.t.Helper()
	f := figures{tables: map[string]size{}, folders: map[string]size{}}
	for _, table := range soak.Tables() {
		for _, name := range names(table) {
			var s size
			// The size of a table includes its partitions.
			require.NoError(h.t, h.conn.QueryRow(h.t.Context(), `SELECT (SELECT count(*) FROM `+name+`), pg_total_relation_size($1) +
				coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree($1) WHERE level > 0), 0)::bigint`, name).Scan(&s.n, &s.bytes))
			f.tables[name] = s
			if table.Setting == "" || slices.Contains(undivided(), table.Name) {
				f.kept += s.n
				continue
			}
			f.aged = size{f.aged.n + s.n, f.aged.bytes + s.bytes}
		}
	}
	data := filepath.Join(h.s.Dir, "data")
	for _, parent := range []string{data, h.s.AgentDir()} {
		entries, err := os.ReadDir(parent)
		require.NoError(h.t, err)
		for _, e := range entries {
			if name := filepath.Join(parent, e.Name()); e.IsDir() && e.Name() != "postgres" && name != h.s.AgentDir() {
				f.folders[strings.TrimPrefix(name, data+"/")] = h.folder(name)
			}
		}
	}
	f.objects, f.works = f.folders["objects"], h.leftWorks()
	return f
}

// leftWorks returns the number and the size of the files of works that are gone. The agent deletes the folder of a
// work before it reports that the work is gone, so the result should be zero. leftWorks repeats the measurement for
// some time, because a work may end between reading the folders and reading the rows.
func (h *harness) leftWorks() (left size) {
	h.t.Helper()
	dir := filepath.Join(h.s.AgentDir(), "works")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 30 {
		folders, err := os.ReadDir(dir)
		require.NoError(h.t, err)
		left = size{}
		for _, f := range folders {
			id, _, _ := strings.Cut(f.Name(), ".") // the rest of the name is the generation and the fence
			var present bool
			require.NoError(h.t, h.conn.QueryRow(h.t.Context(), `SELECT EXISTS (SELECT FROM jobs.work WHERE id = $1 AND phase <> 'gone')`, id).Scan(&present))
			if !present {
				own := h.folder(filepath.Join(dir, f.Name()))
				left = size{left.n + own.n, left.bytes + own.bytes}
			}
		}
		if left.n == 0 {
			return left
		}
		<-tick.C
	}
	return left
}

// folder returns the number and the size of the files below a folder, which may disappear meanwhile. The size counts
// occupied blocks, because the disk image of a work occupies fewer bytes than its length.
func (h *harness) folder(dir string) (s size) {
	h.t.Helper()
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // the file has disappeared
		}
		if info, err := e.Info(); err == nil {
			own := info.Size()
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				const block = 512 // the unit of Blocks
				own = min(own, st.Blocks*block)
			}
			s = size{s.n + 1, s.bytes + own}
		}
		return nil
	})
	return s
}

// show prints the figures of every table that is not empty and of every folder, at the middle and at the end.
func (h *harness) show(middle, last figures) {
	h.t.Helper()
	var b strings.Builder
	for _, pair := range [][2]map[string]size{{middle.tables, last.tables}, {middle.folders, last.folders}} {
		for _, name := range slices.Sorted(maps.Keys(pair[1])) {
			if pair[0][name].n+pair[1][name].n > 0 {
				fmt.Fprintf(&b, "\n%-32s %-20v %v", name, pair[0][name], pair[1][name])
			}
		}
	}
	h.t.Logf("table or folder: rows or files, at the middle and at the end:%s", b.String())
}

func (h *harness) compare(middle, last figures) {
	h.t.Helper()
	most := 1.1
	if h.length < long {
		most = 2
	}
	for name, pair := range map[string][2]int64{
		"rows": {middle.aged.n, last.aged.n}, "bytes of tables": {middle.aged.bytes, last.aged.bytes},
		"objects": {middle.objects.n, last.objects.n}, "bytes of objects": {middle.objects.bytes, last.objects.bytes},
	} {
		require.LessOrEqual(h.t, float64(pair[1]), float64(pair[0])*most, "%s grow from %d to %d", name, pair[0], pair[1])
	}
	require.Zero(h.t, middle.works)
	require.Zero(h.t, last.works)
	require.Positive(h.t, last.objects.bytes)
	require.Positive(h.t, last.tables["inference.playground_turn"].n, "the sessions must have left transcripts")
}
