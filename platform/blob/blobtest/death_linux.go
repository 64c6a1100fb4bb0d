package blobtest

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the server also when the test binary is killed.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
