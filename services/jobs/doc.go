// Package jobs owns what runs: submissions and their gates, jobs, runs, attempts, quota, fleets and
// their nodes, and the works that agents are asked to do.
//
// It promises: a refused submission leaves nothing behind; a job's state moves only along the edges
// of internal/job, each move one transaction with its event; an account never holds more GPUs than
// its limit and a node never more work than it has room for, with any number of replicas; what an
// agent is told and what it reports are whole, so that a lost message costs a delay and never a
// state.
//
// The areas, each importing only those before it: topic, trail; quota; token; gang;
// job; desk; watch; hardware; fleet; work; drive; cluster; queue; reconcile; run; share; jobspec, catalog, gate and submit.
// This package wires them.
package jobs
