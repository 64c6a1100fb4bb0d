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
// The subpackages, in the order in which they handle a submission: jobapi receives it, jobspec parses it, admission
// checks it with the gates, which use hardware and quota, and job stores it. scheduler places the job on nodes of
// fleet. assignment sends the work items to the agents; ingesttoken creates the tokens with which training processes
// report. The packages gang and lifecycle change the job's state according to what its nodes report. run stores the
// record that outlives the job, runsearch finds runs by it and by copies of their reports, and share publishes it
// through links. cluster counts nodes and drains them, and
// transfer gives jobs and runs to another owner. db holds the migrations, the wake-up topics and the audit writer.
// This package connects them.
package jobs
