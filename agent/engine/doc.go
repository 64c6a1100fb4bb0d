// Package engine owns the start commands and the readiness probes of serving engines. A Driver turns a spec
// into a command. A Prober checks a running engine in a fixed order: port, model list, one token or
// embedding, a stream. It reports the engine as ready only after the engine has generated a token or an
// embedding. The package starts no process; the executor does.
package engine
