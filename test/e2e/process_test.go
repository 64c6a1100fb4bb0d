package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// commandLine returns the command line of a process, or "" if the process does not exist.
func commandLine(pid int) string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	return string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '}))
}
