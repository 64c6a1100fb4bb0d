package boundary

import (
	"errors"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// The offsets in the kernel's struct seccomp_data. Arguments have 64 bits; the lower half is first.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
	offsetArg1   = 24
)

// architecture describes the system calls of one processor architecture.
type architecture struct {
	// audit is the kernel's number of the architecture.
	audit uint32
	// denied are the numbers of denied calls that other architectures do not have.
	denied []uint32
}

// architectures are those on which works can be isolated, by their names in Go. The calls of the x32 ABI of amd64
// have numbers above lastCall.
func architectures() map[string]architecture {
	return map[string]architecture{
		"amd64": {audit: unix.AUDIT_ARCH_X86_64, denied: []uint32{
			134, // uselib
			154, // modify_ldt
			156, // _sysctl
			172, // iopl
			173, // ioperm
			174, // create_module
			177, // get_kernel_syms
			178, // query_module
		}},
		"arm64": {audit: unix.AUDIT_ARCH_AARCH64},
	}
}

// newNamespaces are the flags of clone and unshare that create a namespace. In a new user namespace a process has all
// capabilities, and with them a much larger part of the kernel is within its reach.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// deniedCalls are the system calls that fail with EPERM: they need privileges that a work does not have, or they
// reach parts of the kernel that no work needs.
func deniedCalls() []uint32 {
	return []uint32{
		unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_CHROOT, unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE,
		unix.SYS_FANOTIFY_INIT, unix.SYS_FINIT_MODULE, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK,
		unix.SYS_INIT_MODULE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD, unix.SYS_KEYCTL, unix.SYS_LOOKUP_DCOOKIE,
		unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_NFSSERVCTL,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_OPEN_TREE, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PIVOT_ROOT, unix.SYS_PTRACE,
		unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SETDOMAINNAME,
		unix.SYS_SETHOSTNAME, unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF, unix.SYS_SWAPON, unix.SYS_SYSLOG,
		unix.SYS_UMOUNT2, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
	}
}

// absentCalls are the system calls that fail with ENOSYS, as on an older kernel. Programs then use older calls:
// clone instead of clone3, whose flags the filter cannot read.
func absentCalls() []uint32 {
	return []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}
}

// argumentRules are the calls that are denied for some arguments only.
func argumentRules() []argumentRule {
	return []argumentRule{
		{unix.SYS_CLONE, offsetArg0, unix.BPF_JSET, newNamespaces},
		{unix.SYS_UNSHARE, offsetArg0, unix.BPF_JSET, newNamespaces},
		// Input that appears to come from the keyboard of the terminal.
		{unix.SYS_IOCTL, offsetArg1, unix.BPF_JEQ, unix.TIOCSTI},
		{unix.SYS_IOCTL, offsetArg1, unix.BPF_JEQ, unix.TIOCLINUX},
		// Sockets to the hypervisor and to the kernel's ciphers.
		{unix.SYS_SOCKET, offsetArg0, unix.BPF_JEQ, unix.AF_VSOCK},
		{unix.SYS_SOCKET, offsetArg0, unix.BPF_JEQ, unix.AF_ALG},
	}
}

// argumentRule denies a call if an argument meets the condition.
type argumentRule struct {
	call      uint32
	argument  uint32
	condition uint16
	value     uint32
}

// lastCall is the newest system call that this list was checked against, mseal. Later calls fail with ENOSYS.
const lastCall = 462

// syscallFilter returns the filter program. It rejects calls of another architecture, because they have other
// numbers.
func syscallFilter() ([]unix.SockFilter, error) {
	own, known := architectures()[runtime.GOARCH]
	if !known {
		return nil, errors.New("there is no list of system calls for this architecture")
	}
	deny, absent := result(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)), result(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS))
	filter := []unix.SockFilter{
		load(offsetArch), jump(unix.BPF_JEQ, own.audit, 1, 0), absent,
		load(offsetNumber), jump(unix.BPF_JGT, lastCall, 0, 1), absent,
	}
	for _, call := range slices.Concat(deniedCalls(), own.denied) {
		filter = append(filter, jump(unix.BPF_JEQ, call, 0, 1), deny)
	}
	for _, call := range absentCalls() {
		filter = append(filter, jump(unix.BPF_JEQ, call, 0, 1), absent)
	}
	for _, r := range argumentRules() {
		filter = append(filter,
			load(offsetNumber), jump(unix.BPF_JEQ, r.call, 0, 3), load(r.argument), jump(r.condition, r.value, 0, 1), deny)
	}
	return append(filter, result(unix.SECCOMP_RET_ALLOW)), nil
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(condition uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | condition, Jt: yes, Jf: no, K: value}
}

func result(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}
