package boundary

import "golang.org/x/sys/unix"

// auditArch is the kernel's number of this architecture.
const auditArch = unix.AUDIT_ARCH_AARCH64

// archDenied are the denied calls that only this architecture has: none.
func archDenied() []uint32 { return nil }
