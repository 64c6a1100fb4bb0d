package environment

import "io"

// Count lets tests read a taskset.
func Count(t Taskset, r io.Reader) (string, error) { return t.count(r) }
