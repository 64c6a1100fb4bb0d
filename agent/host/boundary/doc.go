// Package boundary owns what separates a work from the machine: what it may use, see and reach.
//
// A Plan holds the limits of a work's processes. It uses a cgroup for each work if the machine allows it (version 2,
// else version 1), otherwise rlimits. With a cgroup, no process of the work escapes Kill. An Isolation holds the
// user of the processes and the files that they see. Both are complete: another process can apply them without
// examining the machine again. Users assigns user ids to works.
package boundary
