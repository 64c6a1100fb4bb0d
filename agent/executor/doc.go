// Package executor owns the contract between the control plane and a program that runs its works. The
// host agent is such a program; on Slurm, package slurm runs the processes of attempts for it.
//
// The contract is level-triggered: the control plane sends all desired works and the executor reports all observations,
// so a lost message does no harm. A Key identifies one execution. An execution starts at most once, and an older
// execution never disturbs a newer one. Package test/executortest holds the test suite that every implementation must
// pass.
package executor
