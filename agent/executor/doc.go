// Package executor owns the contract between the control plane and whatever runs its
// work: a host agent today, Kubernetes and Slurm agents through the same types.
//
// The contract is level-triggered: the control plane sends everything it desires, the
// executor reports everything it observes, and neither needs to have seen every
// message. A Key identifies one execution. An execution starts at most once, and an
// older execution never disturbs a newer one. executortest holds the suite that every
// implementation must pass.
package executor
