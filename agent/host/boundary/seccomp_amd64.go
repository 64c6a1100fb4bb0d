package boundary

import "golang.org/x/sys/unix"

// auditArch is the kernel's number of this architecture. The calls of the x32 ABI have numbers above lastCall.
const auditArch = unix.AUDIT_ARCH_X86_64

// archDenied are the denied calls that only this architecture has.
func archDenied() []uint32 {
	return []uint32{
		unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT,
		unix.SYS_QUERY_MODULE, unix.SYS_USELIB, unix.SYS__SYSCTL,
	}
}
