// Package logship owns the delivery of a work's log file to the ingest routes. Every byte is delivered
// under exactly one sequence number. A journal on disk records the number of a range before the range is
// sent. A range that was not acknowledged is sent again with the same bytes and the same number, if
// necessary by the next agent. Each try uses the current address of the ingest routes. Logs never fail a
// job: a range that the server rejects permanently is dropped.
package logship
