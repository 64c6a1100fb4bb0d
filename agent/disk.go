package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	// diskEvery is the time between two checks of the data folder's free space.
	diskEvery = time.Second
	// writes is the number of bytes that a work must write between two measurements to count as a work that writes.
	writes = 64 << 10
	// mostFiles is the number of files of a work up to which the sizes of its files are read. If a work has more files,
	// only the bytes that its processes write are counted.
	mostFiles = 2000
	// If at least 16 times the reserve (plenty) is free, only every tenth check (calm) measures what works write.
	calm, plenty = 10, 16
)

// disk guards the disk of the data folder. When the disk is full, it ends the builds of environments, freezes the works
// that write, and releases the reserve for everything else on the disk. Frozen works cannot use up the released space.
// If the disk fills further, all works are frozen.
type disk struct {
	dir                        string
	reserve                    localfile.Reserve
	log                        *slog.Logger
	frozen                     func(works map[string]bool) // called with the names of the frozen works; see report
	available, full, frozenNow metric.Int64Gauge
	endedBuilds                metric.Int64Counter

	checks int
	// last holds the footprint of each work at the last measurement; it is nil before the first one.
	last map[string]footprint
}

// footprint holds the number of bytes that the processes of a work have written, and the bytes on disk of the folders
// that the work can write to. space is -1 if it is unknown.
type footprint struct{ written, space int64 }

// since returns how much was written since an earlier footprint.
func (u footprint) since(before footprint) int64 {
	grown := max(0, u.written-before.written)
	if u.space >= 0 && before.space >= 0 {
		grown = max(grown, u.space-before.space)
	}
	return grown
}

// newDisk returns the guard of an agent's data folder with a reserve of the given size.
func newDisk(data string, bytes int64, log *slog.Logger, meters metric.MeterProvider) (*disk, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	d := &disk{
		dir: data, reserve: localfile.Reserve{Path: filepath.Join(data, "reserve"), Bytes: bytes}, log: log, frozen: func(map[string]bool) {},
	}
	var errs [4]error
	meter := meters.Meter("agent")
	d.available, errs[0] = meter.Int64Gauge("agent_disk_available_bytes",
		metric.WithDescription("free space on the disk of the agent's data folder"))
	d.full, errs[1] = meter.Int64Gauge("agent_disk_full",
		metric.WithDescription("1 while the reserve is released because the disk of the agent's data folder is full"))
	d.frozenNow, errs[2] = meter.Int64Gauge("agent_disk_frozen_works",
		metric.WithDescription("works that are frozen because the disk of the agent's data folder is full"))
	d.endedBuilds, errs[3] = meter.Int64Counter("agent_disk_ended_builds_total",
		metric.WithDescription("builds of environments that were ended because the disk of the agent's data folder is full"))
	return d, errors.Join(errs[:]...)
}

// newFreed returns a function that counts the bytes that were removed from a cache; meters may be nil.
func newFreed(meters metric.MeterProvider) (func(ctx context.Context, cache string, bytes int64), error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	counter, err := meters.Meter("agent").Int64Counter("agent_cache_removed_bytes_total",
		metric.WithDescription("bytes removed from the caches of objects and environments because they were full, by cache"))
	if err != nil {
		return nil, fmt.Errorf("create the counter agent_cache_removed_bytes_total: %w", err)
	}
	return func(ctx context.Context, cache string, bytes int64) {
		counter.Add(ctx, bytes, metric.WithAttributes(attribute.String("cache", cache)))
	}, nil
}

// report registers the function set, which receives the names of the frozen works. report calls set at once if no
// reserve is held: an earlier process has then released it, or someone has removed its file. Each later check that
// determines which works are frozen calls set too.
func (d *disk) report(set func(works map[string]bool)) error {
	_, held, err := d.reserve.State()
	if err != nil {
		return err
	}
	d.frozen = set
	if held {
		return nil
	}
	works, err := shim.Frozen(d.works())
	set(works)
	return err
}

// FreeSpace releases the reserve of an agent's data folder if the disk is full. It freezes all works first, because it
// does not know which of them write. A process calls FreeSpace before it opens the data folder, because opening needs
// disk space too.
func FreeSpace(ctx context.Context, cfg Config, log *slog.Logger) error {
	if cfg.ReserveBytes == 0 {
		return nil
	}
	d, err := newDisk(cfg.Data, cfg.ReserveBytes, log, nil)
	if err != nil {
		return err
	}
	_, held, err := d.reserve.State()
	if errors.Is(err, syscall.ENOTDIR) {
		return nil // New returns an error for such a folder.
	}
	if err != nil || !held {
		return err
	}
	return d.check(ctx)
}

// Run checks the disk every second until ctx is done.
func (d *disk) Run(ctx context.Context, clk clock.Clock) error {
	return process.Loop(ctx, clk, diskEvery, 0, process.Logged(d.log, "disk", d.check))
}

// check measures the free space. If it is less than half of the reserve's size, check freezes the works that write and
// releases the reserve. While the reserve is released, check also freezes works that begin to write, and all works if
// the free space again falls below half of the reserve's size. When twice the reserve's size is free, check takes the
// reserve back and continues the works.
func (d *disk) check(ctx context.Context) error {
	free, err := localfile.Available(d.dir)
	if err != nil {
		return err
	}
	exists, held, err := d.reserve.State()
	if err != nil {
		return err
	}
	d.available.Record(ctx, free)
	low, high := free < d.reserve.Bytes/2, free >= 2*d.reserve.Bytes
	wrote, measured := d.measure(low || free < plenty*d.reserve.Bytes)
	switch {
	case held && low:
		err = d.fill(ctx, free, wrote)
	case !held && high:
		// Works may be frozen even if the file does not exist, because someone may have removed it.
		err = d.thaw(ctx, exists)
	case exists && !held:
		err = d.stayFull(ctx, low, wrote)
	}
	if exists && low {
		d.endBuilds(ctx) // Only after the release of the reserve: ending a build needs some space.
	}
	return errors.Join(err, measured)
}

func (d *disk) works() string { return worksIn(d.dir) }

// worksIn returns the folder of the works in a data folder.
func worksIn(data string) string { return filepath.Join(data, "works") }

// measure returns how many bytes each work has written since the last measurement. It returns nil for the first
// measurement. If the parameter scarce is false, only every tenth call (calm) measures; the others return nil.
func (d *disk) measure(scarce bool) (map[string]int64, error) {
	d.checks++
	if !scarce && d.checks%calm != 1 {
		return nil, nil
	}
	written, err := shim.Written(d.works())
	now := make(map[string]footprint, len(written))
	for work, bytes := range written {
		now[work] = footprint{written: bytes, space: spaceOf(filepath.Join(d.works(), work))}
	}
	before := d.last
	d.last = now
	if before == nil {
		return nil, err
	}
	wrote := make(map[string]int64, len(now))
	for work, u := range now {
		wrote[work] = u.since(before[work]) // for a new work, everything that it wrote
	}
	return wrote, err
}

// spaceOf returns the disk space of the files that a work can write in its folder, or -1 if there are more than
// mostFiles. If the work has its own disks, the images of these disks contain what it writes.
func spaceOf(work string) int64 {
	var sum space
	for _, name := range []string{"work", "tmp", "spool", "package", "log", "disk.img", "spool-disk.img"} {
		var top syscall.Stat_t
		if syscall.Lstat(filepath.Join(work, name), &top) == nil {
			sum.add(filepath.Join(work, name), top.Dev)
		}
	}
	if sum.files > mostFiles {
		return -1
	}
	return sum.bytes
}

// space counts files and the bytes that they occupy on the disk.
type space struct {
	files int
	bytes int64
}

// add adds the files below root that are on the file system with the given device number. It ignores files that
// disappear while it runs.
func (s *space) add(root string, device uint64) {
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, _ error) error {
		var st syscall.Stat_t
		found := syscall.Lstat(path, &st) == nil
		s.files++
		switch {
		case s.files > mostFiles:
			return fs.SkipAll
		case found && st.Dev != device && entry.IsDir():
			return fs.SkipDir
		case found && st.Dev == device:
			const block = 512 // the unit of Blocks
			s.bytes += st.Blocks * block
		}
		return nil
	})
}

// fill freezes the works that write and then releases the reserve, so that these works cannot use up the reserve. If
// there was no earlier measurement, fill freezes all works.
func (d *disk) fill(ctx context.Context, free int64, wrote map[string]int64) error {
	n, err := shim.Freeze(d.works(), func(work string) bool { return wrote == nil || wrote[work] >= writes })
	if err := errors.Join(err, d.reserve.Release()); err != nil {
		return fmt.Errorf("free the disk: %w", err)
	}
	works, err := shim.Frozen(d.works())
	d.note(ctx, true, works)
	d.log.ErrorContext(ctx, "the disk is full; works that write are frozen until space is freed",
		"folder", d.dir, "available", free, "works", len(works), "processes", n)
	return err
}

// endBuilds ends the running builds of environments. A build can be repeated, and the folder of an ended build is
// deleted, which frees space. A frozen build would keep its folder.
func (d *disk) endBuilds(ctx context.Context) {
	steps, _ := filepath.Glob(filepath.Join(d.dir, "builds", "step-*"))
	for _, dir := range steps {
		r, err := shim.Control{}.Running(dir)
		if err != nil || !r.Shim.Alive() {
			continue
		}
		if !(shim.Control{}).StopRequested(dir) {
			d.endedBuilds.Add(ctx, 1)
		}
		if err = (shim.Control{}).Stop(dir, 0); err != nil {
			r.Shim.Signal(syscall.SIGTERM) // Stop could not write stop.json, so the build gets a short grace period.
		}
		d.log.ErrorContext(ctx, "the disk is full; ending the build of an environment", "folder", dir, "error", err)
	}
}

// stayFull freezes the works that begin to write while the disk is full, or all works if the parameter all is true. It
// also freezes the processes that frozen works have started since the last check.
func (d *disk) stayFull(ctx context.Context, all bool, wrote map[string]int64) error {
	before, err := shim.Frozen(d.works())
	if err != nil {
		return err
	}
	n, err := shim.Freeze(d.works(), func(work string) bool { return all || before[work] || wrote[work] >= writes })
	if err != nil {
		return fmt.Errorf("freeze works: %w", err)
	}
	now, err := shim.Frozen(d.works())
	if !maps.Equal(before, now) {
		d.log.ErrorContext(ctx, "the disk is still full; more works are frozen", "folder", d.dir, "all", all, "works", len(now), "processes", n)
	}
	d.note(ctx, true, now)
	return err
}

// thaw takes the reserve and continues the frozen works. The parameter full states whether the disk was full before.
func (d *disk) thaw(ctx context.Context, full bool) error {
	if err := d.reserve.Take(); err != nil {
		return err
	}
	n, err := thawAll(d.works())
	if err != nil {
		return err
	}
	d.note(ctx, false, nil)
	if full || n > 0 {
		d.log.InfoContext(ctx, "the disk has space again; works continue", "folder", d.dir, "processes", n)
	}
	return nil
}

// thawAll continues the works in a folder that a full disk has frozen, and returns the number of their processes.
func thawAll(works string) (processes int, err error) {
	processes, err = shim.Thaw(works)
	if err != nil {
		return processes, fmt.Errorf("continue the works: %w", err)
	}
	return processes, nil
}

// note records whether the disk is full, and which works are frozen.
func (d *disk) note(ctx context.Context, full bool, works map[string]bool) {
	value := int64(0)
	if full {
		value = 1
	}
	d.full.Record(ctx, value)
	d.frozenNow.Record(ctx, int64(len(works)))
	d.frozen(works)
}
