package boundary

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// view is the root of a work's file system while it is created.
type view struct {
	Isolation
	root int // descriptor of the root
}

// Mount replaces the root of the calling process by the root of the work. The process must be the first one of its
// namespaces, see Process. Afterwards it is confined to the work's files, but keeps its privileges.
func (i Isolation) Mount() error {
	// The work's user must be able to pass the folders of its root, whatever the umask of the agent is. The work itself
	// keeps that umask.
	defer unix.Umask(unix.Umask(0o022))
	// Without this, the mounts would appear on the machine as well.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	for _, d := range i.Disks {
		if err := d.mount(); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", i.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4m"); err != nil {
		return fmt.Errorf("mount the root of the work: %w", err)
	}
	root, err := unix.Open(i.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the root of the work: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	v := &view{Isolation: i, root: root}
	for _, step := range []func() error{v.addSystem, v.addKernel, v.addAccounts, v.addNames, v.addBinds, v.enter} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) at(name string) string { return path.Join(v.Root, name) }

// addSystem adds the folders of programs and libraries.
func (v *view) addSystem() error {
	for _, dir := range systemFolders() {
		to, err := os.Readlink(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err == nil:
			if err := os.Symlink(to, v.at(dir)); err != nil {
				return fmt.Errorf("link %s: %w", dir, err)
			}
		default:
			if err := v.bind(Bind{Path: dir, Access: ReadOnly}); err != nil {
				return err
			}
		}
	}
	for _, b := range systemFiles() {
		if slices.Contains(v.ownNames(), b.Path) {
			continue // see addNames
		}
		if err := v.bind(b); err != nil {
			return err
		}
	}
	return nil
}

// addKernel adds the file systems of the kernel and the links in /dev.
func (v *view) addKernel() error {
	shared := "mode=1777"
	if v.SharedMemory > 0 {
		shared += ",size=" + strconv.FormatInt(v.SharedMemory, 10)
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV
	for _, m := range []struct {
		kind, path, options string
		flags               uintptr
	}{
		// hidepid=2 hides the processes of other users, here those of root.
		{"proc", "/proc", "hidepid=2", plain | unix.MS_NOEXEC},
		{"devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=0620", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"tmpfs", "/dev/shm", shared, plain},
	} {
		if err := os.MkdirAll(v.at(m.path), 0o755); err != nil { //nolint:gosec // the folder is in the work's own root
			return fmt.Errorf("create %s: %w", m.path, err)
		}
		if err := unix.Mount(m.kind, v.at(m.path), m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.path, err)
		}
	}
	for name, to := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(to, v.at("/dev/"+name)); err != nil {
			return fmt.Errorf("link /dev/%s: %w", name, err)
		}
	}
	return nil
}

// The files that decide how names are looked up.
const (
	resolvConf = "/etc/resolv.conf"
	hostsFile  = "/etc/hosts"
	nsswitch   = "/etc/nsswitch.conf"
)

// ownNames returns the files for the lookup of names that are replaced in the view of the work.
func (v *view) ownNames() []string {
	switch {
	case v.Network.Closed:
		return []string{resolvConf, hostsFile, nsswitch}
	case v.Network.Kind == OwnNetwork:
		return []string{resolvConf}
	}
	return nil
}

// addNames adds the files of ownNames. For a closed work, /etc/hosts is a link, because the content of that file
// changes.
func (v *view) addNames() error {
	texts := map[string]string{resolvConf: "nameserver " + ownResolver + "\n"}
	if v.Network.Closed {
		texts = map[string]string{
			resolvConf: "# The work has no name servers.\n", hostsFile: OwnHosts(), nsswitch: "passwd: files\ngroup: files\nhosts: files\n",
		}
	}
	for _, name := range v.ownNames() {
		if name == hostsFile && v.Network.Hosts != "" {
			if err := os.Symlink(v.Network.Hosts, v.at(name)); err != nil {
				return fmt.Errorf("link %s: %w", name, err)
			}
			continue
		}
		if err := os.WriteFile(v.at(name), []byte(texts[name]), 0o644); err != nil { //nolint:gosec // the work reads it
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// addAccounts adds lists of users and groups that contain only root and the work's user. It also creates /run.
func (v *view) addAccounts() error {
	id := strconv.Itoa(v.UID)
	files := map[string]string{
		"passwd": "root:x:0:0:root:/:/usr/sbin/nologin\nwork:x:" + id + ":" + id + ":work:" + v.Home + ":/bin/sh\n",
		"group":  "root:x:0:\nwork:x:" + id + ":\n",
	}
	for name, text := range files {
		if err := os.WriteFile(v.at("/etc/"+name), []byte(text), 0o644); err != nil { //nolint:gosec // the work reads it
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
	}
	if err := os.MkdirAll(v.at("/run"), 0o755); err != nil { //nolint:gosec // the folder is in the work's own root
		return fmt.Errorf("create /run: %w", err)
	}
	return nil
}

func (v *view) addBinds() error {
	// A bind may lie inside another bind. Sort them, so that the outer one is mounted first.
	byPath := slices.SortedFunc(slices.Values(v.Binds), func(a, b Bind) int { return cmp.Compare(a.Path, b.Path) })
	for _, b := range byPath {
		if err := v.bind(b); err != nil {
			return err
		}
	}
	return nil
}

// bind adds a file or folder. It sets the attributes of the mount before the work can see the file.
func (v *view) bind(b Bind) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, cmp.Or(b.From, b.Path), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		if b.Optional && errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("open %s: %w", cmp.Or(b.From, b.Path), err)
	}
	defer func() { _ = unix.Close(tree) }()
	attributes := map[Access]uint64{
		ReadOnly: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Writable: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Device:   unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC,
	}[b.Access]
	if attributes == 0 {
		return fmt.Errorf("%s: unknown access %q", b.Path, b.Access)
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return fmt.Errorf("protect %s: %w", b.Path, err)
	}
	var info unix.Stat_t
	if err := unix.Fstat(tree, &info); err != nil {
		return fmt.Errorf("read the kind of %s: %w", b.Path, err)
	}
	point, err := v.mountPoint(b.Path, info.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return fmt.Errorf("create the mount point %s: %w", b.Path, err)
	}
	defer func() { _ = unix.Close(point) }()
	if err := unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", b.Path, err)
	}
	return nil
}

// mountPoint opens a path below the root. It creates what is missing: folders and, unless the mount point is a folder,
// an empty file. It follows no symbolic links, because the path may lead through a folder in which an earlier process
// of the work has created them.
func (v *view) mountPoint(name string, folder bool) (int, error) {
	parts := strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	at, err := unix.Dup(v.root)
	for n, part := range parts {
		if err != nil {
			return -1, err
		}
		var next int
		next, err = openOrCreate(at, part, folder || n < len(parts)-1)
		_ = unix.Close(at)
		at = next
	}
	return at, err
}

func openOrCreate(at int, name string, folder bool) (int, error) {
	const mode = 0o755
	var err error
	if folder {
		err = unix.Mkdirat(at, name, mode)
	} else if fd, created := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, mode); created == nil {
		_ = unix.Close(fd)
	} else {
		err = created
	}
	// EROFS means that the path lies in a read-only folder of the system and exists already.
	if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EROFS) {
		return -1, err
	}
	return unix.Openat2(at, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
}

// enter makes the root read-only, changes to it and gives up the machine's root.
func (v *view) enter() error {
	err := unix.MountSetattr(v.root, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil {
		return fmt.Errorf("protect the root of the work: %w", err)
	}
	if err := unix.Chdir(v.Root); err != nil {
		return fmt.Errorf("change to the root of the work: %w", err)
	}
	// With two equal paths, the machine's root is mounted on top of the new root, where it can be unmounted.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the machine's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("change to the new root: %w", err)
	}
	return nil
}
