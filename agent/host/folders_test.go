package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// folder returns a path of a writable folder of the attempt, which is valid until the test ends.
func (a *attempt) folder(name string) string {
	a.Helper()
	path, closeFolder := a.openFolder(name)
	a.Cleanup(closeFolder)
	return path
}

// openFolder returns a path of a writable folder of the attempt, which is valid until closeFolder is called. If the
// test runs as root, the folder is on a disk of its own.
func (a *attempt) openFolder(name string) (path string, closeFolder func()) {
	a.Helper()
	d := boundary.Disk{Image: a.path("disk.img"), Dir: a.path("disk"), Purpose: boundary.Scratch}
	if name == "spool" {
		d = boundary.Disk{Image: a.path("spool-disk.img"), Dir: a.path("spool-disk"), Purpose: boundary.Reports}
	}
	if os.Geteuid() != 0 {
		require.NoFileExists(a, d.Image)
		return a.path(name), func() {}
	}
	root, err := d.Open()
	require.NoError(a, err)
	return filepath.Join(root.Name(), name), func() { _ = root.Close() }
}

// awaitBegun waits until the command has begun.
func (a *attempt) awaitBegun() {
	a.Helper()
	require.Eventually(a, func() bool { return strings.HasPrefix(a.logText(), "begun\n") }, time.Minute, 5*time.Millisecond)
}

const workDisk = 32 << 20

func limitDisk(c *host.Config) { c.WorkDisk = workDisk }

// attachedBelow returns the files below dir that are attached to loop devices.
func attachedBelow(t *testing.T, dir string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(t, err)
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && below(string(raw), dir) {
			found = append(found, strings.TrimSpace(string(raw)))
		}
	}
	return found
}

// below reports whether the kernel's path of a file is below dir. The kernel's path may lack the first elements of dir:
// it begins at the root of the file's own file system if the loop device was set up in a mount namespace that has only
// this file system.
func below(file, dir string) bool {
	for rest := strings.Trim(dir, "/"); strings.Contains(rest, "/"); _, rest, _ = strings.Cut(rest, "/") {
		if strings.HasPrefix(file, "/"+rest+"/") {
			return true
		}
	}
	return false
}

// writeAll fills a folder and then the inodes of its disk, and prints which writes fail or still succeed.
const writeAll = `
cd "$SERVICE_JOB_WORKDIR"
head -c 500000000 /dev/zero > large || echo "full at $(($(stat -c %s large) >> 20)) MiB"
rm large
n=0; while [ $n -lt 20000 ] && true > f$n; do n=$((n+1)); done 2>/dev/null
echo "files $n"
for place in "$SERVICE_JOB_WORKDIR" /tmp /var/tmp "$(dirname "$SERVICE_JOB_WORKDIR")/package"; do true > "$place/new" || echo "full $place"; done
echo report > "$SERVICE_JOB_SPOOL_DIR/new" && echo "spool writable"
exit 3`

func TestIsolatedWork_diskLimit(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only root can mount the disks
	}
	a := newAttempt(t, writeAll, limitDisk)
	report, err := a.host.Boundary(t.Context())
	require.NoError(t, err)
	require.NotContains(t, report.Unlimited, "disk")
	a.apply()
	exit := a.reach(executor.PhaseExited).Exit
	require.Equal(t, 3, exit.Code)
	require.Contains(t, exit.Message, "exit code 3; the disk space of the work was full")
	text := a.logText()
	require.Regexp(t, `full at (2\d|3[01]) MiB`, text)
	require.Equal(t, 4, strings.Count(text, "full /"), text)
	require.Regexp(t, `files [34]\d\d\d\n`, text)
	require.Contains(t, text, "spool writable", "the reports must have a disk of their own")
	var st unix.Stat_t
	require.NoError(t, unix.Stat(a.path("disk.img"), &st))
	require.LessOrEqual(t, st.Size, int64(workDisk))
}

// A machine that cannot create disks reports that, and runs works without them.
func TestIsolatedWork_withoutDisks(t *testing.T) {
	t.Parallel()
	var path []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "mkfs.ext4")); err != nil {
			path = append(path, dir)
		}
	}
	a := newAttempt(t, "echo ran > \"$SERVICE_JOB_WORKDIR/made\"", func(c *host.Config) { c.Environ = append(c.Environ, "PATH="+strings.Join(path, ":")) })
	report, err := a.host.Boundary(t.Context())
	require.NoError(t, err)
	require.Contains(t, report.Unlimited, "disk")
	require.Empty(t, report.Problem, "a node that cannot limit disks must still isolate works")
	a.apply()
	exit := a.reach(executor.PhaseExited).Exit
	require.Zero(t, exit.Code, "%+v %s", exit, a.logText())
	require.FileExists(t, a.path("work", "made"))
	require.NoFileExists(t, a.path("disk.img"))
}

// A work that fills its own disk must not lose reports that the reporter has accepted.
func TestIsolatedWork_reportsOnFullDisk(t *testing.T) {
	t.Parallel()
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", limitDisk)
	a.work.Attempt.Command = []string{"python", "-c", fillingReporter}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	require.Equal(t, 9, a.reach(executor.PhaseCollecting).Exit.Signal)
	d.setUnavailable(false)
	exit := a.reach(executor.PhaseExited).Exit
	require.Contains(t, d.received("metrics"), `"value":2.5`, a.logText())
	if os.Geteuid() == 0 {
		require.Contains(t, a.logText(), "No space left on device")
		require.Contains(t, exit.Message, "signal 9; the disk space of the work was full")
	}
}

// fillingReporter fills the disk of its work as far as the limit permits, reports a metric and is killed.
const fillingReporter = `
import os, signalbox
run = signalbox.init()
try:
    with open(os.path.join(os.environ["SERVICE_JOB_WORKDIR"], "large"), "wb", 0) as file:
        for _ in range(100):
            file.write(bytes(1 << 20))
except OSError as e:
    print(e, flush=True)
run.log({"mine/value": 2.5}, step=7)
os.kill(os.getpid(), 9)
`

// A work that fills the space for its reports gets an error, and all earlier reports are delivered.
func TestIsolatedWork_fullSpool(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only root can mount the disks
	}
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", limitDisk)
	a.work.Attempt.Command = []string{"python", "-c", endlessReporter}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	a.reach(executor.PhaseCollecting)
	d.setUnavailable(false)
	exit := a.reach(executor.PhaseExited).Exit
	require.Contains(t, exit.Message, "the disk space for undelivered reports of the work was full")
	_, rest, _ := strings.Cut(a.logText(), "accepted ")
	line, _, _ := strings.Cut(rest, "\n")
	accepted, err := strconv.Atoi(line)
	require.NoError(t, err, a.logText())
	require.Greater(t, accepted, 100)
	received := d.received("metrics")
	for _, step := range []int{0, accepted / 2, accepted - 1} {
		require.Equal(t, 1, strings.Count(received, fmt.Sprintf(`"mine/00","step":%d,`, step)), "step %d of %d: %s", step, accepted, a.logText())
	}
}

// endlessReporter reports metrics until a report fails, and is then killed.
const endlessReporter = `
import os, signalbox
run, accepted = signalbox.init(), 0
try:
    while True:
        run.log({"mine/%02d" % n: 2.5 for n in range(100)}, step=accepted)
        accepted += 1
except signalbox.SpoolError:
    print("accepted", accepted, flush=True)
os.kill(os.getpid(), 9)
`

// The disks of a work must stay mounted while the agent restarts, and disappear with the work.
func TestIsolatedWork_disksAfterRestart(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only root can mount the disks
	}
	a := newAttempt(t, "cd \"$SERVICE_JOB_WORKDIR\"; echo before > file; echo begun; while [ ! -e go ]; do sleep 0.02; done; cat file; head -c 100000000 /dev/zero > large || echo full", limitDisk)
	a.apply()
	a.awaitBegun()
	a.stop()
	a.host, a.stop = open(t, a.dir, a.plane, isolate(limitDisk))
	a.apply()
	require.Len(t, attachedBelow(t, a.path()), 2, "the two disks of the work must be attached")
	work, closeFolder := a.openFolder("work")
	require.NoError(t, os.WriteFile(filepath.Join(work, "go"), nil, 0o600))
	closeFolder()
	require.Zero(t, a.reach(executor.PhaseExited).Exit.Code)
	require.Equal(t, "begun\nbefore\nfull\n", strings.ReplaceAll(a.logText(), "head: error writing 'standard output': No space left on device\n", ""))
	require.NoError(t, a.host.Apply(t.Context(), nil))
	require.Eventually(t, func() bool { return len(a.host.Observed()) == 0 }, time.Minute, 10*time.Millisecond)
	require.NoDirExists(t, a.path())
	require.Eventually(t, func() bool { return len(attachedBelow(t, a.dir)) == 0 }, time.Minute, 10*time.Millisecond)
}

// A machine that ends abruptly leaves no mounts, but it leaves the images of the disks of its works.
func TestIsolatedWork_disksOfKilledShim(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only root can mount the disks
	}
	a := newAttempt(t, "echo kept > \"$SERVICE_JOB_WORKDIR/file\"; echo begun; exec sleep 300", limitDisk)
	a.apply()
	a.awaitBegun()
	a.stop()
	running, err := (shim.Control{Clock: clock.Real()}).Running(a.path("run"))
	require.NoError(t, err)
	require.True(t, running.Shim.Signal(syscall.SIGKILL))
	require.Eventually(t, func() bool { return len(attachedBelow(t, a.path())) == 0 }, time.Minute, 10*time.Millisecond)
	a.host, a.stop = open(t, a.dir, a.plane, isolate(limitDisk))
	a.apply()
	require.Equal(t, executor.ReasonLost, a.reach(executor.PhaseExited).Exit.Reason)
}

// The disks of all works together must fit into the space that is free.
func TestIsolatedWork_disksShareFreeSpace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only root can mount the disks
	}
	a := newAttempt(t, "sleep 300", nil)
	next := a.work
	next.WorkID = "wrk_b"
	a.apply()
	a.reach(executor.PhaseRunning)
	require.NoError(t, a.host.Apply(t.Context(), []executor.Work{a.work, next}))
	require.Eventually(t, func() bool {
		all := a.host.Observed()
		return len(all) == 2 && all[1].Phase == executor.PhaseRunning
	}, time.Minute, 10*time.Millisecond)
	other := *a
	other.work = next
	var sizes [2]int64
	for n, work := range []*attempt{a, &other} {
		info, err := os.Stat(work.path("disk.img"))
		require.NoError(t, err)
		sizes[n] = info.Size()
	}
	require.Less(t, sizes[1], sizes[0]*19/20, "the second work must get an eighth of what the first one left")
}
