// Package ingest is the service that receives what training runs report and serves it to readers: metrics, logs,
// validation samples, hyperparameters and artifacts. It promises that acknowledged data is committed; that a
// repeated request is stored once, and that its number is rejected with a different body; that the log lines of a
// run are numbered without gaps; and that every stream of an ended run ends with one eof. Each request is stored
// as one row, not one row per point.
//
// Its areas, in the order in which a report passes them: httpapi serves the HTTP routes, ingesttoken checks the
// caller, decode and report read the body, groupcommit commits the rows that metric, logs, artifact, evaluation and
// run write, and wakeup notifies the other replicas through Redis. read serves the stored data and follow streams it.
// transfer gives runs to another owner, db holds the migrations.
package ingest
