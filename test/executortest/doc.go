// Package executortest owns the suite that every executor must pass, the suite that every engine driver must pass with
// a real engine and a real model, and the fake control plane of their tests. Objects and ingest tokens are kept in
// memory; the log route is real HTTP.
package executortest
