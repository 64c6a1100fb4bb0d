//go:build !linux

package demo

import "syscall"

// interruptWithParent does nothing: only Linux can signal a process when its parent dies. signalboxd runs on Linux only.
func interruptWithParent(*syscall.SysProcAttr) {}
