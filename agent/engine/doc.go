// Package engine owns the start and the readiness probes of serving engines. A Driver
// turns a spec into a command. A Prober checks the running engine in a fixed order
// (port, model list, one token, a stream) and reports it as ready only after it has
// generated a token. The package starts no process; the executor does. enginetest
// holds the suite that every driver must pass.
package engine
