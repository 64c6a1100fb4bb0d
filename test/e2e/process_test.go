package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// commandLine is what a process was started with, empty where it is gone.
func commandLine(pid int) string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	return string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '}))
}
