package environment

import "io"

// Count exports Taskset.count for tests.
func Count(t Taskset, r io.Reader) (string, error) { return t.count(r) }
