// Package ingest is the service that receives the reports of training runs and serves them to readers: metrics, logs,
// validation samples, hyperparameters and artifacts. It promises that acknowledged data is committed and that a
// repeated request is stored only once. A request with the number of an earlier request, but a different body, is
// rejected. The log lines of a run are numbered without gaps, and every stream of an ended run ends with one eof. All
// points of a metrics request are stored in one row, or in a few rows if the request is large.
//
// A report passes through the packages in this order: httpapi serves the HTTP routes; ingesttoken checks the caller;
// decode and report read the body; groupcommit commits the rows, which the packages metric, logs, artifact, evaluation
// and run write. Package read serves the stored data. Package follow streams it, and notifies the other replicas through
// Redis. Package transfer gives runs to another owner, and db holds the migrations.
package ingest
