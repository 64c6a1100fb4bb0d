// Package executortest is the suite that every executor passes, and the control
// plane that it runs against: objects, ingest tokens and a log route, in memory
// but for the log route, which is real HTTP.
package executortest
