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
// Its areas, each importing only those listed before it: topic, trail; quota; token; gang; job; desk; watch;
// hardware; fleet; work; drive; cluster; queue; reconcile; run; share; jobspec, catalog, gate and submit. This
// package wires them.
package jobs
