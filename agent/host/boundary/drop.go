package boundary

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Drop gives up every privilege of the calling thread and changes its user to that of the work. The caller must then
// execute the work's command on the same thread. Drop cannot be undone, even if it fails.
func (i Isolation) Drop() error {
	runtime.LockOSThread()
	for _, step := range []struct {
		doing string
		do    func() error
	}{
		{"set the limits of core files", noCoreFiles},
		{"leave the session's keys", newKeyring},
		{"give up the capabilities", dropBoundingSet},
		{"change the user", i.changeUser},
		{"give up the remaining capabilities", dropCapabilities},
		{"give up new privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		// A change of the user resets this setting, so it comes after it.
		{"end with the parent", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
		{"filter the system calls", filterSyscalls},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.doing, err)
		}
	}
	return nil
}

// noCoreFiles prevents core files. The kernel may pass them to a program that runs as root outside of the work.
func noCoreFiles() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// newKeyring replaces the session keyring of the agent by an empty one, if the kernel has keyrings.
func newKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

func dropBoundingSet() error {
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && capability > 0 {
			break // The kernel has no capability with this number.
		}
		if err != nil {
			return err
		}
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// changeUser changes the user, the group and the supplementary groups of this thread. In a user namespace the user is
// the agent's, and the kernel does not allow a change of the groups.
func (i Isolation) changeUser() error {
	if i.Kind != OwnUser {
		return nil
	}
	if i.UID <= 0 {
		return fmt.Errorf("%d is not a valid user of a work", i.UID)
	}
	// The functions of package syscall change all threads, which is neither needed nor possible with cgo.
	id := uintptr(i.UID)
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); e != 0 {
		return e
	}
	return nil
}

func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// filterSyscalls installs the filter for this thread and its future children.
func filterSyscalls() error {
	filter, err := syscallFilter()
	if err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))) //nolint:gosec // package unix has no function for it
	runtime.KeepAlive(filter)
	if e != 0 {
		return e
	}
	return nil
}
