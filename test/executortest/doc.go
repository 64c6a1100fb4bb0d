// Package executortest owns the suite that every executor must pass, and the fake
// control plane of its tests. Objects and ingest tokens are kept in memory; the log
// route is real HTTP.
package executortest
