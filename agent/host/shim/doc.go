// Package shim owns the processes of one work, independently of the agent process. It runs as a subcommand
// of the agent's binary, with one process for each start of a command. A shim leads a session, starts the
// command in its own process group under the work's limits, and appends stdout and stderr to one log file.
// When the command ends or a stop is requested, it ends all processes of the work and writes the outcome to
// a file.
//
// A command with a boundary has a parent inside it (init.go): the first process of its namespaces, which creates the
// boundary, starts and reaps the command and passes its status to the shim.
//
// The files of a folder are its complete state: start.json (the command to run), lock (locked while the
// shim runs), run.json (the running processes), stop.json (the grace period of a requested stop) and
// exit.json (the outcome). If the shim has started the command and has ended without an exit.json, its work
// is lost. The files have a version, so that the next version of the agent can adopt a running shim.
//
// Identity (procid.go) identifies a process by pid, start time and boot, so that a process with a reused
// pid is never mistaken for an earlier process.
package shim
