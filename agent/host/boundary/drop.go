package boundary

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
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
		{"limit open files", limitFiles},
		{"limit core files", limitCores},
		{"replace the session keyring", newKeyring},
		{"drop the capability bounding set", dropBoundingSet},
		{"change the user", i.changeUser},
		{"drop the remaining capabilities", dropCapabilities},
		{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"restrict the sockets and ports", i.restrict},
		// The kernel resets this setting when the user changes, so it is set afterwards.
		{"set the parent-death signal", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
		{"filter the system calls", filterSyscalls},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.doing, err)
		}
	}
	return nil
}

// maxFiles is how many files each process of a work may have open. The kernel also limits the number for the whole
// machine.
const maxFiles = 65_536

// limitFiles limits the number of open files.
func limitFiles() error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files = boundFiles(files)
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
}

// limitCores prevents core dumps. The kernel may pass a dump, whose content the work chooses, to a program that runs as
// root outside of the boundary. It does so even if the limit is 0, but never if the limit is 1. No core file is as small
// as 1 byte, so no file is written either.
func limitCores() error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		return fmt.Errorf("find out where the kernel writes core dumps: %w", err)
	}
	if passesCores(string(pattern)) {
		return fmt.Errorf("the hard limit of core files is 0, so the kernel would pass core dumps of works to %q; "+
			"let the agent have a limit of 1 or more (LimitCORE=1 in its unit, or ulimit -c 1)", strings.TrimSpace(string(pattern)))
	}
	return nil // The limit is 0, which prevents core files.
}

// passesCores reports whether the kernel passes core dumps to a program or to a socket instead of writing files.
func passesCores(pattern string) bool {
	return strings.HasPrefix(pattern, "|") || strings.HasPrefix(pattern, "@")
}

func boundFiles(l unix.Rlimit) unix.Rlimit {
	return unix.Rlimit{Cur: min(l.Cur, maxFiles), Max: min(l.Max, maxFiles)}
}

// newKeyring replaces the session keyring of the agent with an empty one, if the kernel has keyrings.
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
		return fmt.Errorf("%d is not a valid user id for a work", i.UID)
	}
	// The functions of package syscall change all threads. That is not needed here, and not possible in a program with
	// cgo.
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

// The offsets in the kernel's struct seccomp_data. Arguments have 64 bits; the lower half is first.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
	offsetArg1   = 24
	offsetArg2   = 32
	upperHalf    = 4
)

// architecture describes the system calls of one processor architecture.
type architecture struct {
	// audit is the kernel's number of the architecture.
	audit uint32
	// denied are the numbers of denied calls that other architectures do not have.
	denied []uint32
}

// architectures returns the architectures on which works can be isolated, by their names in Go. The calls of the x32
// ABI of amd64 have numbers above lastCall.
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
// capabilities, which give it access to a much larger part of the kernel.
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

// absentCalls are the system calls that fail with ENOSYS, as on an older kernel. Programs then use older calls, for
// example clone instead of clone3. The filter can read the flags of clone, but not those of clone3.
func absentCalls() []uint32 {
	return []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}
}

// argumentRules returns the rules for calls that are denied only for some arguments.
func argumentRules() []argumentRule {
	return []argumentRule{
		{unix.SYS_CLONE, offsetArg0, unix.BPF_JSET, newNamespaces},
		{unix.SYS_UNSHARE, offsetArg0, unix.BPF_JSET, newNamespaces},
		{unix.SYS_UNSHARE, offsetArg0, unix.BPF_JSET, unix.CLONE_FILES}, // see fileTableRules
		{unix.SYS_CLOSE_RANGE, offsetArg2, unix.BPF_JSET, unix.CLOSE_RANGE_UNSHARE},
		// These requests insert input that appears to come from the terminal's keyboard.
		{unix.SYS_IOCTL, offsetArg1, unix.BPF_JEQ, unix.TIOCSTI},
		{unix.SYS_IOCTL, offsetArg1, unix.BPF_JEQ, unix.TIOCLINUX},
		// The kernel sends the packets of these protocols through sockets of its own. A filter by user does not match
		// these packets.
		{unix.SYS_SOCKET, offsetArg2, unix.BPF_JGT, lastProtocol},
	}
}

// lastProtocol is the largest protocol number that the header of an IP packet can hold. MPTCP and SMC have larger
// numbers.
const lastProtocol = 255

// socketFamilies are the kinds of sockets that a work may create. Sockets of other kinds reach the hypervisor, the
// kernel's ciphers, or networks that no filter sees.
func socketFamilies() []uint32 {
	return []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
}

// fileTableRules returns the rules that deny threads with a file table of their own. The shim counts only the files in the
// table of the process.
func fileTableRules(deny unix.SockFilter) []unix.SockFilter {
	return []unix.SockFilter{
		load(offsetNumber), jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4), load(offsetArg0),
		jump(unix.BPF_JSET, unix.CLONE_THREAD, 0, 2), jump(unix.BPF_JSET, unix.CLONE_FILES, 1, 0), deny,
	}
}

// coreRules returns the rules that keep the limit of core files, see limitCores. A call that sets it reports success and
// changes nothing: gpg and other programs end if they cannot prevent their own core dumps, which are prevented anyway. The
// call prlimit64 also reads limits; the pointer to the new limit is then nil.
func coreRules() []unix.SockFilter {
	ignore := result(unix.SECCOMP_RET_ERRNO) // with error number 0, which means success
	return []unix.SockFilter{
		load(offsetNumber), jump(unix.BPF_JEQ, unix.SYS_SETRLIMIT, 0, 3),
		load(offsetArg0), jump(unix.BPF_JEQ, unix.RLIMIT_CORE, 0, 1), ignore,
		load(offsetNumber), jump(unix.BPF_JEQ, unix.SYS_PRLIMIT64, 0, 7),
		load(offsetArg1), jump(unix.BPF_JEQ, unix.RLIMIT_CORE, 0, 5),
		load(offsetArg2), jump(unix.BPF_JEQ, 0, 0, 2), load(offsetArg2 + upperHalf), jump(unix.BPF_JEQ, 0, 1, 0), ignore,
	}
}

// addressRules returns the rules that deny the options with which a socket uses an address that the node does not have.
// Other machines would otherwise take the packets of a work for those of another node. Every user may set these options.
func addressRules(deny unix.SockFilter) []unix.SockFilter {
	return []unix.SockFilter{
		load(offsetNumber), jump(unix.BPF_JEQ, unix.SYS_SETSOCKOPT, 0, 8),
		load(offsetArg1), jump(unix.BPF_JEQ, unix.IPPROTO_IP, 0, 2), load(offsetArg2), jump(unix.BPF_JEQ, unix.IP_FREEBIND, 3, 4),
		jump(unix.BPF_JEQ, unix.IPPROTO_IPV6, 0, 3), load(offsetArg2), jump(unix.BPF_JEQ, unix.IPV6_FREEBIND, 0, 1), deny,
	}
}

// socketRules returns the rules that deny a call that creates sockets, unless the socket is of one of the given
// families.
func socketRules(call uint32, families []uint32, deny unix.SockFilter) []unix.SockFilter {
	rules := []unix.SockFilter{load(offsetNumber), jump(unix.BPF_JEQ, call, 0, uint8(len(families)+2)), load(offsetArg0)}
	for n, family := range families {
		rules = append(rules, jump(unix.BPF_JEQ, family, uint8(len(families)-n), 0))
	}
	return append(rules, deny)
}

// argumentRule denies a call if an argument meets the condition.
type argumentRule struct {
	call      uint32
	argument  uint32
	condition uint16
	value     uint32
}

// lastCall is the number of mseal, the newest system call that was considered for these lists. Later calls fail with
// ENOSYS.
const lastCall = 462

// syscallFilter returns the filter program. It rejects calls of another architecture, because their numbers mean other
// calls.
func syscallFilter() ([]unix.SockFilter, error) {
	own, known := architectures()[runtime.GOARCH]
	if !known {
		return nil, errors.New("works cannot be isolated on this processor architecture, because there is no list of its system calls")
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
	filter = append(filter, fileTableRules(deny)...)
	filter = append(filter, coreRules()...)
	filter = append(filter, addressRules(deny)...)
	filter = append(filter, socketRules(unix.SYS_SOCKET, socketFamilies(), deny)...)
	filter = append(filter, socketRules(unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX}, deny)...)
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
