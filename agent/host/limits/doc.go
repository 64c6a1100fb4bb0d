// Package limits owns the resource limits of a work's processes. It uses a cgroup for each
// work if the machine allows it (version 2, else version 1), otherwise rlimits. It promises
// that another process can carry out a Plan without looking at the machine again, and that
// with a cgroup no process of the work escapes Kill.
package limits
