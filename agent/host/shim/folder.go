package shim

import (
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/limits"
)

// Start describes what to run. Env may contain secrets, so the file is private.
type Start struct {
	// Path is the program's file. Args is the complete argument vector.
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Log is the file to which stdout and stderr are appended.
	Log    string      `json:"log"`
	Limits limits.Plan `json:"limits"`
	// Mark is the value of the variable MarkName in the work's environment.
	Mark string `json:"mark"`
}

// MarkName is the variable that identifies leftover processes of a work.
const MarkName = "SERVICE_WORK_KEY"

// Running describes what is running.
type Running struct {
	Shim      Identity  `json:"shim"`
	Command   Identity  `json:"command"`
	StartedAt time.Time `json:"started_at"`
}

// Exit describes how it ended.
type Exit struct {
	// Code is the exit code; -1 if a signal ended the command or nothing was started.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// OOM is true if the kernel killed a process of the work at its memory limit.
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
