// Package logship owns the delivery of a work's log file to the ingest routes. It promises that
// every byte is delivered under one sequence number: a range of the file gets its number in a
// journal before it is sent, and a range that was not acknowledged is sent again with the same
// bytes and the same number, also by the next agent. Each try uses the current address of the
// ingest routes. Logs never fail a job: a range that the server rejects permanently is dropped.
package logship
