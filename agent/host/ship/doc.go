// Package ship delivers a work's log file to the ingest routes. It promises that
// every byte is delivered under one sequence number: a range of the file gets its
// number in a journal before it is sent, and a range that was not acknowledged is
// sent again as the same bytes under the same number, also by the next agent.
// Each try goes to where
// the ingest routes are then, not to where they were when the work began. Logs never fail a job: what the server refuses for good is given up.
package ship
