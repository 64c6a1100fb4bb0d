package shim

import (
	"bytes"
	"os"
	"strconv"
)

// Descendants returns the pids of the descendants of pid, except zombies.
func Descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range all() {
		if s, err := readStat(p); err == nil && !s.ended() {
			children[s.ppid] = append(children[s.ppid], p)
		}
	}
	var found []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// WithVariable returns the processes that were started with the environment variable name=value. Sweep uses
// it to find processes that a killed shim left behind outside a cgroup.
func WithVariable(name, value string) []Identity {
	want := []byte(name + "=" + value)
	var found []Identity
	for _, p := range all() {
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(p) + "/environ")
		if err != nil || !hasVariable(environ, want) {
			continue
		}
		if i, err := Lookup(p); err == nil && i.Alive() {
			found = append(found, i)
		}
	}
	return found
}

func hasVariable(environ, want []byte) bool {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(variable, want) {
			return true
		}
	}
	return false
}

func all() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
