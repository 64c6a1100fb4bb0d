// Package jobs owns submissions and their gates, jobs, runs, attempts, quota, fleets and their nodes, and
// the work items that agents carry out.
//
// It promises:
//   - A rejected submission leaves nothing behind.
//   - A job's state moves only along the edges of internal/job. Each move and its event are one transaction.
//   - With any number of replicas, an account never holds more GPUs than its limit and a node never gets more
//     work than it has room for.
//   - Messages to and from agents carry the whole state, so a lost message causes a delay but never a wrong state.
//
// Its areas, in the order in which a submission passes them: jobapi receives it, jobspec reads it, admission runs the
// gates, with hardware and quota, and job stores it. scheduler places it on the nodes of fleet, assignment sends the
// works to their agents, with an ingesttoken each, and gang and lifecycle move the job by what its nodes report. run
// keeps what outlives the job, share shows it to others. cluster summarizes nodes and drains them, transfer gives jobs
// and runs to another owner, db holds the migrations, the wake-up topics and the audit writer. This package wires them.
package jobs
