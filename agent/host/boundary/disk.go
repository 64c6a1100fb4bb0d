package boundary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Disk is a file system of fixed size that is stored in a file and holds what a work writes. It limits the space and
// the inodes that the work can use. It is mounted only where it is used: in the mount namespace of the work, and by
// Open. The kernel unmounts it when the last process of the work ends, even if the agent was killed, and then detaches
// the file from its loop device.
type Disk struct {
	// Image is the path of the file.
	Image string `json:"image"`
	// Dir is an empty folder on which the disk is mounted in the work's mount namespace.
	Dir     string  `json:"dir"`
	Purpose Purpose `json:"purpose"`
}

// Purpose decides how a disk is created and mounted.
type Purpose string

const (
	// Scratch disks occupy only the space that their files need. They have no journal, because the work does not
	// continue after a crash of the machine. A journal would even do harm: if the machine's own disk is full for a
	// moment, a failed write to the journal makes the disk unusable for good.
	Scratch Purpose = "scratch"
	// Reports disks have a journal, so that what was written stays readable after a crash. Their space is allocated
	// from the start, so that writes do not fail when the machine's disk is full. They have a reserve, see Release.
	Reports Purpose = "reports"
)

// BytesPerInode is the size of a disk in bytes divided by the number of its inodes.
const BytesPerInode = 8192

// Create creates the disk with the given size in bytes, and creates the given folders on it, which belong to root. It
// replaces an earlier disk, which must not be in use. The parameter mkfs is the path of mkfs.ext4.
func (d Disk) Create(ctx context.Context, mkfs string, size int64, folders ...string) error {
	// Use a new file, because the kernel may still be unmounting the earlier one.
	made := d.Image + ".new"
	if err := errors.Join(os.MkdirAll(d.Dir, 0o700), allocate(made, d.Purpose, size)); err != nil {
		return err
	}
	features, extended := "^resize_inode,^has_journal", "nodiscard,lazy_itable_init=1"
	if d.Purpose == Reports {
		features, extended = "^resize_inode,has_journal", extended+",lazy_journal_init=1"
	}
	cmd := exec.CommandContext(ctx, mkfs, "-q", "-F", "-m", "0", "-i", strconv.Itoa(BytesPerInode), "-O", features, "-E", extended, "-e", "continue", made)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("create the file system of a work: %w: %s", err, strings.TrimSpace(string(out)))
	}
	// Allocate the space only after mkfs has run: mkfs may free blocks instead of writing zeros to them.
	if err := errors.Join(fill(made, d.Purpose, size), os.Rename(made, d.Image)); err != nil {
		return fmt.Errorf("create the disk of a work: %w", err)
	}
	root, err := d.Open()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, name := range folders {
		if err := os.Mkdir(filepath.Join(root.Name(), name), 0o700); err != nil {
			return fmt.Errorf("create a folder on the disk of a work: %w", err)
		}
	}
	if d.Purpose == Reports {
		return allocate(reserve(root), Reports, reserveBytes)
	}
	return nil
}

// reserveBytes is the reserve of a disk for reports.
const reserveBytes = 1 << 20

// reserve returns the path of the reserve below the root of the disk.
func reserve(root *os.File) string { return filepath.Join(root.Name(), "reserve") }

// Release frees the reserve of a disk for reports: space and an inode that the work itself cannot use. The program that
// delivers the rest of the reports needs them to record what it has sent. Release may be called again.
func (d Disk) Release() error {
	root, err := d.Open()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := os.Remove(reserve(root)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release the reserve of a disk: %w", err)
	}
	return nil
}

// allocate creates a file of the given size.
func allocate(path string, purpose Purpose, size int64) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an incomplete file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create the file of a disk: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return fmt.Errorf("set the size of a disk: %w", err)
	}
	return fill(path, purpose, size)
}

// fill allocates the space of a disk for reports. It does nothing for other disks.
func fill(path string, purpose Purpose, size int64) error {
	if purpose != Reports {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the file of a disk: %w", err)
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = nil // The file system of the machine cannot allocate space in advance.
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("allocate the file of a disk: %w", err)
	}
	return nil
}

// Open mounts the disk so that only the calling process reaches it, until the returned file is closed. The file is the
// disk's root folder; its name is a path that is valid only in this process. Processes of the work see the same files.
func (d Disk) Open() (*os.File, error) {
	image, err := os.OpenFile(d.Image, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open the disk of a work: %w", err)
	}
	defer func() { _ = image.Close() }()
	// Two loop devices for one image would destroy its file system, so only one process at a time may attach it. The
	// loop device keeps the image open and thereby locked. Closing the image does not unlock it, so unlock it
	// explicitly.
	if err := unix.Flock(int(image.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock the disk of a work: %w", err)
	}
	defer func() { _ = unix.Flock(int(image.Fd()), unix.LOCK_UN) }()
	device, err := attach(image)
	if err != nil {
		return nil, fmt.Errorf("attach the disk of a work to a loop device: %w", err)
	}
	// A mount keeps the device in use. If the mount fails, this Close detaches the image.
	defer func() { _ = device.Close() }()
	fd, err := mountDevice(device.Name(), d.Purpose)
	if err != nil {
		return nil, fmt.Errorf("mount the disk of a work: %w", err)
	}
	return os.NewFile(uintptr(fd), "/proc/self/fd/"+strconv.Itoa(fd)), nil
}

// mount mounts the disk on its folder in the calling process's mount namespace.
func (d Disk) mount() error {
	root, err := d.Open()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := unix.MoveMount(int(root.Fd()), "", unix.AT_FDCWD, d.Dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the disk of the work: %w", err)
	}
	return nil
}

// mountDevice mounts the file system of the device. The mounted file system can be reached only through the returned
// descriptor.
func mountDevice(device string, purpose Purpose) (int, error) {
	ctx, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(ctx) }()
	if err := unix.FsconfigSetString(ctx, "source", device); err != nil {
		return -1, err
	}
	// The file was new and therefore zero; the kernel need not write zeros to it.
	flags := []string{"noinit_itable"}
	if purpose == Scratch {
		flags = append(flags, "discard") // Space that the work frees becomes free on the machine's disk too.
	}
	for _, flag := range flags {
		if err := unix.FsconfigSetFlag(ctx, flag); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, err
	}
	return unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// maxAttachTries is how often attach tries to get a free loop device. Another process may take the same device first.
const maxAttachTries = 100

// attach returns a loop device to which the file is attached. The kernel detaches the file when nothing uses the device
// any more. The caller holds the lock on the file.
func attach(image *os.File) (*os.File, error) {
	if device, err := attached(image); device != nil || err != nil {
		return device, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	for range maxAttachTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		path, err := createNode("loop" + strconv.Itoa(n))
		if err != nil {
			return nil, err
		}
		device, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{
			Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if err == nil {
			return device, nil
		}
		_ = device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, errors.New("other processes took every free loop device first")
}

// attached returns the loop device to which the file is already attached, or nil.
func attached(image *os.File) (*os.File, error) {
	var own unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &own); err != nil {
		return nil, err
	}
	inUse, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, err
	}
	for _, dir := range inUse {
		path, err := createNode(filepath.Base(filepath.Dir(dir)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // The device was removed.
		}
		if err != nil {
			return nil, err
		}
		device, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // The device was removed or is read-only.
		}
		// While the device is open, the kernel does not detach its file.
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		if err == nil && info.Device == own.Dev && info.Inode == own.Ino {
			return device, nil
		}
		_ = device.Close()
	}
	return nil, nil //nolint:nilnil // no device has the file
}

// createNode creates the file of the loop device in /dev if it is missing, as it is in most containers, and returns its
// path.
func createNode(name string) (string, error) {
	path := filepath.Join("/dev", name)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	numbers, err := os.ReadFile(filepath.Join("/sys/block", name, "dev"))
	if err != nil {
		return "", err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(string(numbers), "%d:%d", &major, &minor); err != nil {
		return "", fmt.Errorf("parse the device numbers of %s: %w", name, err)
	}
	err = unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor)))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("create %s: %w", path, err)
	}
	return path, nil
}

// Usage is the total and the free space of a disk, in bytes and in files.
type Usage struct {
	Bytes, FreeBytes, Files, FreeFiles int64
}

// nearlyFull is the free space below which a disk counts as full. The file system needs part of the last space for its
// own blocks.
const nearlyFull = 1 << 20

// Full reports whether the disk has no room for more data or for more files.
func (u Usage) Full() bool { return u.FreeBytes < nearlyFull || u.FreeFiles == 0 }

// Usage returns the disk's total and free space.
func (d Disk) Usage() (Usage, error) {
	root, err := d.Open()
	if err != nil {
		return Usage{}, err
	}
	defer func() { _ = root.Close() }()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &st); err != nil {
		return Usage{}, fmt.Errorf("read the usage of the disk: %w", err)
	}
	return Usage{
		Bytes: int64(st.Blocks) * st.Bsize, FreeBytes: int64(st.Bavail) * st.Bsize, Files: int64(st.Files), FreeFiles: int64(st.Ffree),
	}, nil
}

// Promised returns by how many bytes the given disk images may still grow, in total.
func Promised(images []string) (int64, error) {
	var sum int64
	for _, path := range images {
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read the size of the disk %s: %w", path, err)
		}
		const block = 512 // the unit of Blocks
		sum += max(st.Size-st.Blocks*block, 0)
	}
	return sum, nil
}
