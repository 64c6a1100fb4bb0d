// Package limits holds a work's processes within its bounds: by a cgroup of its
// own where the machine lets us make one (version 2, else 1), else by rlimits.
// It promises that a Plan, once made, can be carried out by another process
// without looking at the machine again, and that with a cgroup no process of
// the work escapes Kill.
package limits
