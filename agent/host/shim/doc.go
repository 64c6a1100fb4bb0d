// Package shim owns the processes of one work while agents come and go. It runs
// as a subcommand of the agent's binary, one process for each start: it leads a
// session, starts the command in a process group of its own under the work's
// limits, appends both outputs to one log file, ends everything when the command
// ends or when it is told to, and leaves the outcome in a file.
//
// What a folder holds tells the whole state: start.json (what to run), lock
// (held as long as the shim lives), run.json (what runs), stop.json (how long
// the processes may take to end), exit.json (how it ended). A shim that is gone
// without exit.json has lost its work.
package shim
