// Package shim owns the processes of one work while agents come and go. It runs as a
// subcommand of the agent's binary, one process for each start. A shim leads a session,
// starts the command in its own process group under the work's limits, appends stdout and
// stderr to one log file, ends all processes when the command ends or a stop is requested,
// and writes the outcome to a file.
//
// The files of a folder are its complete state: start.json (what to run), lock (held while
// the shim runs), run.json (what is running), stop.json (the grace period of a stop) and
// exit.json (how it ended). If the shim is gone without an exit.json, its work is lost.
//
// Identity (procid.go) names a process by pid, start time and boot, so that a reused pid is never mistaken for an
// earlier process.
package shim
