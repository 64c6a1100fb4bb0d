// Package executortest owns two test suites: one that every executor must pass, and one that every engine
// driver must pass with a real engine and a real model. It also owns the fake control plane of their tests,
// which stores objects and ingest tokens in memory and serves the log route over HTTP.
package executortest
