package shim

import (
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/limits"
	"github.com/signalbox-dev/signalbox/agent/host/process"
)

// Start is what to run. It may hold a secret in Env: the file is private.
type Start struct {
	// Path is the program's file, Args its whole argument vector.
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Log takes both outputs, appended.
	Log    string      `json:"log"`
	Limits limits.Plan `json:"limits"`
	// Mark is the value of the variable MarkName in the work's environment.
	Mark string `json:"mark"`
}

// MarkName is the variable by which leftovers of a work are recognised.
const MarkName = "SERVICE_WORK_KEY"

// Running is what runs.
type Running struct {
	Shim      process.Identity `json:"shim"`
	Command   process.Identity `json:"command"`
	StartedAt time.Time        `json:"started_at"`
}

// Exit is how it ended.
type Exit struct {
	// Code is the exit code, -1 where a signal ended it or nothing was started.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// OOM tells that the kernel killed a process of the work at its memory limit.
	OOM bool `json:"oom,omitempty"`
	// Stopped tells that the shim had been told to stop.
	Stopped bool `json:"stopped,omitempty"`
	// Failure says why nothing could be started.
	Failure   string    `json:"failure,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// stop is how long the processes may take to end.
type stop struct {
	Grace time.Duration `json:"grace"`
}

func startFile(dir string) string { return filepath.Join(dir, "start.json") }
func lockFile(dir string) string  { return filepath.Join(dir, "lock") }
func runFile(dir string) string   { return filepath.Join(dir, "run.json") }
func stopFile(dir string) string  { return filepath.Join(dir, "stop.json") }
func exitFile(dir string) string  { return filepath.Join(dir, "exit.json") }
