package fleet

import (
	"slices"
	"strings"
)

// RuntimeRequirements is the runtime of jobs whose environment the node builds from a lock in the package.
const RuntimeRequirements = "requirements"

const nodePrefix = "node:"

// NodeRuntime returns the runtime of jobs that run with the interpreter of the given name.
func NodeRuntime(name string) string { return nodePrefix + name }

// DescribeRuntime describes what a node must do for jobs with the runtime, as in "nodes that offer the interpreter cuda".
func DescribeRuntime(runtime string) string {
	if name, ok := strings.CutPrefix(runtime, nodePrefix); ok {
		return "offer the interpreter " + name
	}
	return "build the environments of locks"
}

// maxPythons is the maximum number of interpreters of a node.
const maxPythons = 64

// Runtimes returns the runtimes that a node offers.
func Runtimes(pythons []string, buildsEnvironments bool) []string {
	all := []string{}
	for _, name := range pythons[:min(len(pythons), maxPythons)] {
		all = append(all, NodeRuntime(name))
	}
	if buildsEnvironments {
		all = append(all, RuntimeRequirements)
	}
	slices.Sort(all)
	return all
}

// Offers reports whether a node that reports the given runtimes can run a job that needs the runtime, which may be empty.
func Offers(runtimes []string, runtime string) bool {
	return runtime == "" || slices.Contains(runtimes, runtime)
}

// Pythons returns the names of the interpreters among runtimes, sorted.
func Pythons(runtimes []string) []string {
	names := []string{}
	for _, runtime := range runtimes {
		if name, ok := strings.CutPrefix(runtime, nodePrefix); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
