// Package ingest is the service that receives what training runs report and serves it to readers: metrics, logs,
// validation samples, hyperparameters and artifacts. It promises that acknowledged data is committed; that a
// repeated request is stored once, and that its number is rejected with a different body; that the log lines of a
// run are numbered without gaps; and that every stream of an ended run ends with one eof. Each request is stored
// as one row, not one row per point.
//
// Inside: intake serves the HTTP routes with grant, decode and report; commit stores what metric, logs,
// validation, hparam, artifact, hardware, score, evaluation and record write; read serves the stored data and
// follow streams it; live wakes followers on other replicas through Redis; evaluation computes results from the
// rollouts of an agent.
package ingest
