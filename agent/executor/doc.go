// Package executor owns the contract between the control plane and a program that runs its works. Today
// that program is the host agent; agents for Kubernetes or Slurm can implement the same contract.
//
// The contract is level-triggered: the control plane sends all desired works and the executor reports all observations,
// so a lost message does no harm. A Key identifies one execution. An execution starts at most once, and an older
// execution never disturbs a newer one. Package test/executortest holds the test suite that every implementation must
// pass.
package executor
