package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// smallDisk mounts a file system of 16 MB. Only root can do that. For another user it checks that the mount is refused,
// and returns "".
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m")
	if errors.Is(err, syscall.EPERM) {
		t.Log("NOT TESTED: only root can mount a file system that can be filled")
		return ""
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestDisk_check(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	if dir == "" {
		return
	}
	var log bytes.Buffer
	d, err := newDisk(dir, 4<<20, slog.New(slog.NewTextHandler(&log, nil)), nil)
	require.NoError(t, err)
	cfg := Config{Data: dir, ReserveBytes: 4 << 20}
	check := func(exists, held bool) {
		t.Helper()
		require.NoError(t, d.check(t.Context()))
		e, h, err := d.reserve.State()
		require.NoError(t, err)
		require.Equal(t, []bool{exists, held}, []bool{e, h})
	}
	filler := filepath.Join(dir, "filler")
	write := func(bytes int) { t.Helper(); require.NoError(t, os.WriteFile(filler, make([]byte, bytes), 0o600)) }
	write(9 << 20)
	check(false, false) // too little space for a reserve
	require.NotContains(t, log.String(), "full")
	write(0)
	check(true, true)
	write(9 << 20)
	check(true, true)
	write(11 << 20)
	check(true, false)
	require.Contains(t, log.String(), "the disk is full")
	check(true, false) // 5 MB are free, but the reserve needs a margin
	require.NoError(t, FreeSpace(t.Context(), cfg, d.log))
	write(1 << 20)
	check(true, true)
	require.Contains(t, log.String(), "the disk has space again")

	write(11 << 20)
	require.NoError(t, FreeSpace(t.Context(), cfg, d.log), "FreeSpace before an agent starts")
	_, held, err := d.reserve.State()
	require.NoError(t, err)
	require.False(t, held)
	require.NoError(t, FreeSpace(t.Context(), Config{Data: filepath.Join(dir, "missing"), ReserveBytes: 1 << 20}, d.log))
	require.NoError(t, FreeSpace(t.Context(), Config{Data: dir}, d.log), "FreeSpace without a reserve")
}

// work runs a shell script under a shim in the folder of a work.
func (d *disk) work(t *testing.T, name, script string) (dir string) {
	t.Helper()
	dir = filepath.Join(d.works(), name)
	run, place := filepath.Join(dir, "run"), filepath.Join(dir, "work")
	require.NoError(t, os.MkdirAll(run, 0o700))
	require.NoError(t, os.MkdirAll(place, 0o700))
	control := shim.Control{Exec: []string{os.Args[0], "shim"}, Clock: clock.Real()}
	require.NoError(t, control.Launch(run, shim.Start{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: place,
		Log: filepath.Join(dir, "log"), Limits: boundary.Plan{Mode: boundary.Rlimit}, Mark: name + t.Name(),
	}))
	t.Cleanup(func() {
		require.NoError(t, control.Stop(run, 0))
		_, _, err := control.Await(context.Background(), run)
		require.NoError(t, err)
	})
	return place
}

// writesOnceAllowed waits for a file named go. Then it writes a file of 100 KB, and from then on changes a file named
// wrote.
const writesOnceAllowed = `touch ready
until [ -e go ]; do sleep 0.01; done
head -c 100000 /dev/zero > grows
while :; do touch wrote; sleep 0.01; done`

// TestDisk_check_freezesWritersFirst lets three works begin to write at different times while the disk is full.
func TestDisk_check_freezesWritersFirst(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	if dir == "" {
		return
	}
	var frozen []string
	d, err := newDisk(dir, 4<<20, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	require.NoError(t, d.report(func(works map[string]bool) { frozen = slices.Sorted(maps.Keys(works)) }))
	first, second, third := d.work(t, "wrk_1", writesOnceAllowed), d.work(t, "wrk_2", writesOnceAllowed), d.work(t, "wrk_3", writesOnceAllowed)
	exists := func(path ...string) bool { _, err := os.Stat(filepath.Join(path...)); return err == nil }
	for _, place := range []string{first, second, third} {
		require.Eventually(t, func() bool { return exists(place, "ready") }, time.Minute, 5*time.Millisecond)
	}
	// letWrite lets a work write, and waits until it has written enough to count as a work that writes.
	letWrite := func(place string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(place, "go"), nil, 0o600))
		require.Eventually(t, func() bool { return exists(place, "wrote") && spaceOf(filepath.Dir(place)) >= writes }, time.Minute, time.Millisecond)
	}
	fill := func(bytes int) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, bytes), 0o600))
	}
	require.NoError(t, d.check(t.Context()))
	require.Empty(t, frozen)
	letWrite(first)
	fill(21 << 19)
	require.NoError(t, d.check(t.Context()))
	require.Equal(t, []string{"wrk_1"}, frozen, "only the work that writes must be frozen")
	require.NoError(t, d.check(t.Context()))
	require.Equal(t, []string{"wrk_1"}, frozen)
	letWrite(second)
	require.Eventually(t, func() bool {
		require.NoError(t, d.check(t.Context()))
		return strings.Join(frozen, " ") == "wrk_1 wrk_2"
	}, time.Minute, 10*time.Millisecond, "a work that begins to write must be frozen too")

	next, err := newDisk(dir, 4<<20, d.log, nil)
	require.NoError(t, err)
	require.NoError(t, next.report(func(works map[string]bool) { frozen = slices.Sorted(maps.Keys(works)) }))
	require.Equal(t, []string{"wrk_1", "wrk_2"}, frozen, "an agent that starts now must find the frozen works")
	require.NoError(t, next.check(t.Context()))
	require.Equal(t, []string{"wrk_1", "wrk_2"}, frozen)

	fill(14 << 20)
	require.NoError(t, next.check(t.Context()))
	require.Equal(t, []string{"wrk_1", "wrk_2", "wrk_3"}, frozen, "all works must be frozen when something else uses the released space")
	fill(0)
	require.NoError(t, next.check(t.Context()))
	require.Empty(t, frozen)
	require.NoError(t, os.Remove(filepath.Join(second, "wrote")))
	require.Eventually(t, func() bool { return exists(second, "wrote") }, time.Minute, 5*time.Millisecond, "the works must continue")
}

func TestDisk_check_endsBuilds(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	if dir == "" {
		return
	}
	reader := sdkmetric.NewManualReader()
	d, err := newDisk(dir, 4<<20, slog.New(slog.DiscardHandler), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	step := filepath.Join(dir, "builds", "step-1")
	require.NoError(t, os.MkdirAll(step, 0o700))
	control := shim.Control{Exec: []string{os.Args[0], "shim"}, Clock: clock.Real()}
	require.NoError(t, control.Launch(step, shim.Start{
		Path: "/bin/sh", Args: []string{"sh", "-c", "trap '' TERM; until [ -e go ]; do sleep 0.01; done; cat /dev/zero > grows; sleep 300"},
		Env: []string{"PATH=/usr/bin:/bin"}, Dir: step, Log: filepath.Join(step, "log"), Limits: boundary.Plan{Mode: boundary.Rlimit}, Mark: step,
	}))
	require.NoError(t, d.check(t.Context()), "check must allocate the reserve")
	require.Eventually(t, func() bool { return control.Identity(step).Alive() }, time.Minute, time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(step, "go"), nil, 0o600))
	require.Eventually(t, func() bool {
		free, err := localfile.Available(dir)
		return err == nil && free == 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, d.check(t.Context()))
	require.NoError(t, d.check(t.Context()), "the second check must not count the same build again")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	exit, found, err := control.Await(ctx, step)
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, exit.Stopped, "%+v", exit)
	require.EqualValues(t, 1, counted(t, reader, "agent_disk_ended_builds_total"))
}

func TestFootprint_since(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, now footprint
		want        int64
	}{
		"written":                 {footprint{5, 10}, footprint{9, 10}, 4},
		"allocated":               {footprint{5, 10}, footprint{5, 40}, 30},
		"both":                    {footprint{5, 10}, footprint{6, 40}, 30},
		"deleted":                 {footprint{5, 10}, footprint{5, 0}, 0},
		"too many files":          {footprint{5, 10}, footprint{5, -1}, 0},
		"too many files before":   {footprint{5, -1}, footprint{6, 40}, 1},
		"process without a count": {footprint{5, 10}, footprint{1, 10}, 0},
	} {
		require.Equal(t, c.want, c.now.since(c.before), name)
	}
}

func TestConfig_Validate_reserve(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Config{Data: "x", Isolation: "required", ReserveBytes: 1}.Validate(), "SERVICE_AGENT_RESERVE_BYTES")
}

// counted returns the value of a counter without attributes.
func counted(t *testing.T, reader sdkmetric.Reader, name string) (value int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
				value += sum.DataPoints[0].Value
			}
		}
	}
	return value
}

func TestNewFreed_countsBytesByCache(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	freed, err := newFreed(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	freed(t.Context(), "objects", 3)
	freed(t.Context(), "objects", 4)
	freed(t.Context(), "environments", 5)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	require.Equal(t, "agent_cache_removed_bytes_total", all.ScopeMetrics[0].Metrics[0].Name)
	sum, ok := all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64])
	require.True(t, ok)
	removed := map[string]int64{}
	for _, point := range sum.DataPoints {
		cache, _ := point.Attributes.Value("cache")
		removed[cache.AsString()] = point.Value
	}
	require.Equal(t, map[string]int64{"objects": 7, "environments": 5}, removed)
}

func TestDisk_check_thawsAfterReserveWasRemoved(t *testing.T) {
	t.Parallel()
	d, err := newDisk(t.TempDir(), 1<<20, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	wrote := filepath.Join(d.work(t, "wrk_1", "while :; do touch wrote; sleep 0.01; done"), "wrote")
	exists := func() bool { _, err := os.Stat(wrote); return err == nil }
	require.Eventually(t, exists, time.Minute, time.Millisecond)
	_, err = shim.Freeze(d.works(), func(string) bool { return true })
	require.NoError(t, err)
	require.NoError(t, os.Remove(wrote))
	var frozen []string
	require.NoError(t, d.report(func(works map[string]bool) { frozen = slices.Sorted(maps.Keys(works)) }))
	require.Equal(t, []string{"wrk_1"}, frozen, "the frozen work must be reported although the file `reserve` is missing")
	require.NoError(t, d.check(t.Context()))
	require.Empty(t, frozen)
	require.Eventually(t, exists, time.Minute, time.Millisecond, "the work must continue")
	_, held, err := d.reserve.State()
	require.NoError(t, err)
	require.True(t, held)
}
