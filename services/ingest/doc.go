// Package ingest is the service that takes what training reports and shows it: metrics, logs, validation
// samples, hyperparameters, artifacts. It promises that what it acknowledged is committed, that a repeated
// request is stored once and its number refused with another body, that a run's log lines are numbered
// without a gap, and that every stream of a run that ended ends with one eof. Storage is one row a request,
// not a row a point.
//
// Inside: intake answers HTTP with grant, decode and report; commit stores what metric, logs, validation,
// hparam, artifact, hardware, score, evaluation and record write; read shows it, live by follow, whose wait
// live shortens through Redis, and evaluation what follows from an agent's rollouts.
package ingest
