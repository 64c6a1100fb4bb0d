// Package boundary owns what separates a work from the machine: what it may use, see and reach.
//
// A Plan holds the limits of a work's processes. It uses a cgroup for each work if the machine allows it (version 2,
// else version 1), otherwise rlimits. With a cgroup, no process of the work escapes Kill. An Isolation holds the user
// of the processes and the files that they see. A Plan and an Isolation are complete: another process can apply them
// without examining the machine again. A Filter restricts what a work reaches. Users assigns user ids to works.
package boundary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	// Disks are mounted before the binds, because a bind may be a folder on a disk.
	Disks []Disk `json:"disks,omitempty"`
	// Network is what the work may reach.
	Network Network `json:"network,omitzero"`
	// Ports are the ports on which the work must not listen.
	Ports Ports `json:"ports,omitzero"`
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

// Bind is a file or folder of the machine that a work sees. In a folder, the work also sees the file systems mounted
// there.
type Bind struct {
	Path string `json:"path"`
	// From is the path on the machine; if it is empty, the file has the same path there, which is Path.
	From   string `json:"from,omitempty"`
	Access Access `json:"access"`
	// Optional binds are left out if the machine does not have the file.
	Optional bool `json:"optional,omitempty"`
}

// On reports whether the work is isolated.
func (i Isolation) On() bool { return i.Kind == OwnUser || i.Kind == UserNamespace }

// WithoutDevices returns the boundary for another process of the work, which does not get the work's GPUs. The
// parameter root is an empty folder for that process, see the field Root.
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
	ownNetwork := i.Network.Kind == OwnNetwork
	if ownNetwork {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if i.Kind == UserNamespace {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: userID, HostID: userID, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: groupID, HostID: groupID, Size: 1}}
		// Without these, the process would lose the capabilities of the new namespace when it executes its program.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
		if ownNetwork {
			attr.AmbientCaps = append(attr.AmbientCaps, unix.CAP_NET_ADMIN)
		}
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

// systemFiles returns the other files of the system that programs need: for the loader, the lookup of names,
// certificates, time zones and fonts. They contain neither secrets nor the machine's users.
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
	// Programs count the processors and memory nodes here. The rest of /sys stays hidden.
	for _, name := range []string{"cpu", "node"} {
		binds = append(binds, Bind{Path: "/sys/devices/system/" + name, Access: ReadOnly, Optional: true})
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		binds = append(binds, Bind{Path: "/dev/" + name, Access: Device})
	}
	return binds
}

// CheckPrivate returns an error if works would see one of the private folders or something in it. Works see the folders
// of the system and the given paths; setting is the name of the setting that contains the paths. If the agent does not
// run as root, nothing else protects these folders from its works.
func CheckPrivate(private, paths []string, setting string) error {
	for _, dir := range private {
		system := systemFolders()
		for _, b := range systemFiles() {
			if b.Access == ReadOnly {
				system = append(system, b.Path)
			}
		}
		for _, path := range system {
			if Uncovers(path, dir) {
				return fmt.Errorf("jobs and engines can read %s, which contains the data folder %s, where keys are stored; choose a data folder outside of %s", path, dir, path)
			}
		}
		for _, path := range paths {
			if Uncovers(path, dir) || Uncovers(dir, path) {
				return fmt.Errorf("jobs and engines could read %s, which contains the data folder %s, where keys are stored, or is inside that folder; change %s or choose another data folder", path, dir, setting)
			}
		}
	}
	return nil
}

// Uncovers reports whether a work that sees dir also sees path, because path is dir or lies below it after all links
// are resolved. path need not exist yet.
func Uncovers(dir, path string) bool {
	dir, path = real(dir), real(path)
	if Contains(dir, path) {
		return true
	}
	seen, err := os.Stat(dir)
	if err != nil {
		return false
	}
	// A folder can be mounted a second time, under another name. Compare the folders themselves.
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(seen, info) {
			return true
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}

// real returns the absolute path. It resolves the symbolic links in the part of the path that exists.
func real(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	found, err := filepath.EvalSymlinks(path)
	parent := filepath.Dir(path)
	switch {
	case err == nil:
		return found
	case errors.Is(err, fs.ErrNotExist) && parent != path:
		return filepath.Join(real(parent), filepath.Base(path))
	}
	return path
}
