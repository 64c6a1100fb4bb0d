// Package boundary owns the resource limits of a work's processes. It uses a cgroup for each work if the
// machine allows it (version 2, else version 1), otherwise rlimits. A Plan is complete: another process can
// apply it without examining the machine again. With a cgroup, no process of the work escapes Kill.
package boundary
