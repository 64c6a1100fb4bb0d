// Package executor is the contract between the control plane and whatever runs
// its work: a host agent today, Kubernetes and Slurm agents in the same words.
//
// It is level-triggered: the control plane tells all that it desires, the
// executor all that it observes, and neither depends on having seen every
// message. One execution is named by Key; an execution is started at most once,
// and an older one never disturbs a newer one. executortest holds the suite
// that every implementation passes.
package executor
