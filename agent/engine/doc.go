// Package engine knows how serving engines are started and how one tells that
// an engine serves. A Driver turns a spec into a command; Prober asks the running
// engine, in the order of areas-serving.md 2.2, and believes nothing but a
// generated token. It starts no process: the executor does. enginetest holds the
// suite that every driver passes.
package engine
