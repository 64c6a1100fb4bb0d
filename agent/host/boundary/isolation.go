package boundary

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kind is the way in which works are separated from the machine and from each other. The node reports it.
type Kind string

// The kinds, the strictest first.
const (
	// OwnUser: each work runs as a user of its own, in its own view of the file system and of the processes.
	// It requires an agent that runs as root.
	OwnUser Kind = "own_user"
	// UserNamespace: each work has its own view of the file system and of the processes, but runs as the agent's
	// user. Works therefore share what the kernel counts by user, such as the disk quota.
	UserNamespace Kind = "user_namespace"
	// None: works run as the agent's user and can read all files of that user.
	None Kind = "none"
)

// Isolation describes as which user a work runs and what it sees of the machine. Like a Plan it is complete. The
// zero value isolates nothing.
type Isolation struct {
	Kind Kind `json:"kind,omitempty"`
	// UID is the user and the group of the work's processes.
	UID int `json:"uid,omitempty"`
	// Root is an empty folder. The root of the work's file system is mounted on it, in the work's mount namespace.
	Root string `json:"root,omitempty"`
	// Home is the home folder of the work's user.
	Home string `json:"home,omitempty"`
	// Binds are the files and folders that the work sees in addition to the programs and libraries of the system.
	Binds []Bind `json:"binds,omitempty"`
	// SharedMemory is the size of /dev/shm in bytes; if 0, half of the machine's memory.
	SharedMemory int64 `json:"shared_memory,omitempty"`
}

// Access is what a work may do with a file or folder.
type Access string

// The kinds of access.
const (
	ReadOnly Access = "read_only"
	Writable Access = "writable"
	Device   Access = "device"
)

// Bind is a file or folder of the machine that a work sees. If it is a folder, the work sees its mounts too.
type Bind struct {
	Path string `json:"path"`
	// From is the path on the machine; Path if empty.
	From   string `json:"from,omitempty"`
	Access Access `json:"access"`
	// Optional binds are left out if the machine does not have the file.
	Optional bool `json:"optional,omitempty"`
}

// On reports whether the work is isolated.
func (i Isolation) On() bool { return i.Kind == OwnUser || i.Kind == UserNamespace }

// WithoutDevices returns the same boundary for another process of the work, without its GPUs. root is its empty folder.
func (i Isolation) WithoutDevices(root string) Isolation {
	binds := slices.Clone(i.Binds)
	i.Binds = slices.DeleteFunc(binds, func(b Bind) bool { return b.Access == Device || b.Path == "/sys" })
	i.Root = root
	return i
}

// namespaces are the namespaces that a work does not share with the machine.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC

// Process returns the attributes of the first process of an isolated work, which calls Mount. The caller must not
// end the thread that starts the process while the work runs: the kernel kills the process when this thread ends,
// and with the process every other process of the work.
func (i Isolation) Process(userID, groupID int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if !i.On() {
		return attr
	}
	attr.Cloneflags = namespaces
	if i.Kind == UserNamespace {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: userID, HostID: userID, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: groupID, HostID: groupID, Size: 1}}
		// Without these, the process would lose the capabilities of the new namespace when it executes its program.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	}
	return attr
}

// Contains reports whether path is dir or lies below it.
func Contains(dir, path string) bool {
	return dir == path || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// systemFolders are the folders of programs and libraries. On most systems all but /usr are links into /usr.
func systemFolders() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
}

// systemFiles returns the other files of the system that programs need: of the loader, for names, certificates,
// time and fonts. Files with secrets or with a list of the machine's users are not among them.
func systemFiles() []Bind {
	const usual = 40
	binds := make([]Bind, 0, usual)
	for _, name := range []string{
		"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "os-release", "nsswitch.conf", "hosts", "host.conf",
		"resolv.conf", "gai.conf", "services", "protocols", "mime.types", "localtime", "timezone", "ssl/certs",
		"ssl/openssl.cnf", "pki/tls/certs", "pki/tls/openssl.cnf", "pki/ca-trust/extracted", "crypto-policies", "fonts", "OpenCL/vendors",
	} {
		binds = append(binds, Bind{Path: "/etc/" + name, Access: ReadOnly, Optional: true})
	}
	// Only the processors and the memory nodes, which programs count; not the rest of /sys.
	for _, name := range []string{"cpu", "node"} {
		binds = append(binds, Bind{Path: "/sys/devices/system/" + name, Access: ReadOnly, Optional: true})
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		binds = append(binds, Bind{Path: "/dev/" + name, Access: Device})
	}
	return binds
}
