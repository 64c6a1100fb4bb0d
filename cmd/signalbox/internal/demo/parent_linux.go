package demo

import "syscall"

// interruptWithParent interrupts the server when the demo dies, so that it ends its jobs and engines too.
func interruptWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGINT }
