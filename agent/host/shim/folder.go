package shim

import (
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// Start is the content of start.json: the command to run. Env may contain secrets, so only the agent's user
// can read the file.
type Start struct {
	// Path is the path or the name of the program. Args is the complete argument vector, including the program.
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Log is the file to which stdout and stderr are appended.
	Log    string        `json:"log"`
	Limits boundary.Plan `json:"limits"`
	// Isolation is the boundary around the command. Path, Dir and Env refer to what the command sees inside it;
	// Log is a path of the machine.
	Isolation boundary.Isolation `json:"isolation,omitzero"`
	// Mark is the value of the environment variable MarkName.
	Mark string `json:"mark"`
}

// MarkName is the environment variable by which leftover processes of a work are found.
const MarkName = "SERVICE_WORK_KEY"

// Running is the content of run.json: the running processes.
type Running struct {
	Shim      Identity  `json:"shim"`
	Command   Identity  `json:"command"`
	StartedAt time.Time `json:"started_at"`
}

// Exit is the content of exit.json: how the command ended.
type Exit struct {
	// Code is the exit code; -1 if a signal ended the command or nothing was started.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// OOM is true if the kernel killed a process of the work because of its memory limit.
	OOM bool `json:"oom,omitempty"`
	// Stopped is true if a stop was requested.
	Stopped bool `json:"stopped,omitempty"`
	// Failure states why the command could not be started.
	Failure   string    `json:"failure,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// stop is the content of stop.json. Grace is the time until the processes are killed.
type stop struct {
	Grace time.Duration `json:"grace"`
}

func startFile(dir string) string { return filepath.Join(dir, "start.json") }
func lockFile(dir string) string  { return filepath.Join(dir, "lock") }
func runFile(dir string) string   { return filepath.Join(dir, "run.json") }
func stopFile(dir string) string  { return filepath.Join(dir, "stop.json") }
func exitFile(dir string) string  { return filepath.Join(dir, "exit.json") }
