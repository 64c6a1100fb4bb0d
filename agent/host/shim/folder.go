package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/logship"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Version is the version of the files in a shim's folder. An agent adopts shims of its own version and of all earlier
// ones, so that works continue during an upgrade. A change that an earlier agent would misread needs a new version.
// Files without a version have version 0, which differs from version 1 only by the missing number. Since version 2,
// works may have disks; an earlier agent would not find the undelivered reports on them.
const Version = 2

// ErrNewer reports files of a version that this program does not know.
var ErrNewer = errors.New("the work was started by a newer version of the agent")

// CheckVersion returns ErrNewer if the folder contains a file of a newer version.
func CheckVersion(dir string) error {
	for _, path := range []string{startFile(dir), leaseFile(dir), runFile(dir), stopFile(dir), exitFile(dir)} {
		var file struct {
			Version int `json:"version"`
		}
		err := localfile.ReadJSON(path, &file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case file.Version > Version:
			return fmt.Errorf("%w: %s has version %d, and this program knows version %d", ErrNewer, filepath.Base(path), file.Version, Version)
		}
	}
	return nil
}

// Start is the content of start.json: the command to run. Only the agent's user can read the file, because Env may
// contain secrets.
type Start struct {
	Version int `json:"version"`
	// Path is the path or the name of the program. Args is the complete argument vector, including the program.
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Log is the file to which stdout and stderr are appended, within LogBounds.
	Log       string         `json:"log"`
	LogBounds logship.Bounds `json:"log_bounds,omitzero"`
	Limits    boundary.Plan  `json:"limits"`
	// Disk limits what the command writes, if its folders are not on a disk of their own.
	Disk DiskBounds `json:"disk,omitzero"`
	// Isolation is the boundary around the command. Path, Dir and Env refer to what the command sees inside it;
	// Log is a path of the machine.
	Isolation boundary.Isolation `json:"isolation,omitzero"`
	// Mark is the value of the environment variable MarkName.
	Mark string `json:"mark"`
	// Grace is the time between SIGTERM and SIGKILL if the shim receives a signal without a requested stop; if 0, 10
	// seconds.
	Grace time.Duration `json:"grace,omitempty"`
	// Queued is true if a batch system may have held the work after its lease began. The silence then counts from the
	// start of the shim.
	Queued bool `json:"queued,omitempty"`
	// Hold is a file that the shim keeps open until it ends, or nil. The command does not receive it.
	Hold *os.File `json:"-"`
}

// MarkName is the environment variable by which leftover processes of a work are found.
const MarkName = "SERVICE_WORK_KEY"

// Running is the content of run.json: the running processes.
type Running struct {
	Version int      `json:"version"`
	Shim    Identity `json:"shim"`
	Command Identity `json:"command"`
	// First is the first process inside the boundary, which ends after all others there. It is zero without a boundary.
	First     Identity  `json:"first,omitzero"`
	StartedAt time.Time `json:"started_at"`
}

// Exit is the content of exit.json: how the command ended.
type Exit struct {
	Version int `json:"version"`
	// Code is the exit code; -1 if a signal ended the command or nothing was started.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// OOM is true if the kernel killed a process of the work because of its memory limit.
	OOM bool `json:"oom,omitempty"`
	// Stopped is true if a stop was requested before the command had ended.
	Stopped bool `json:"stopped,omitempty"`
	// Cause is set if the shim itself stopped the command, and Message states why.
	Cause   Cause  `json:"cause,omitempty"`
	Message string `json:"message,omitempty"`
	// Failure states why the command could not be started.
	Failure string `json:"failure,omitempty"`
	// Missing are the absolute paths of the command line that did not exist inside the boundary when the command was
	// started, at most maxMissing.
	Missing   []string  `json:"missing,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// Cause is the reason why a shim stopped its command without a request from the agent.
type Cause string

// The causes: the response to a renewal of the lease requested a stop, no renewal succeeded within Lease.Silence,
// the processes had too many files open, or the folders contain too much.
const (
	CauseOrder   Cause = "order"
	CauseSilence Cause = "silence"
	CauseFiles   Cause = "files"
	CauseDisk    Cause = "disk"
)

// stop is the content of stop.json. Grace is the time until the processes are killed.
type stop struct {
	Version int           `json:"version"`
	Grace   time.Duration `json:"grace"`
}

func startFile(dir string) string { return filepath.Join(dir, "start.json") }
func lockFile(dir string) string  { return filepath.Join(dir, "lock") }
func runFile(dir string) string   { return filepath.Join(dir, "run.json") }
func stopFile(dir string) string  { return filepath.Join(dir, "stop.json") }
func exitFile(dir string) string  { return filepath.Join(dir, "exit.json") }
