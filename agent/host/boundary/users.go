package boundary

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Users is the range of user ids for works, First to Last. Each id is also the id of a group.
type Users struct{ First, Last int }

// String returns the range in the format that ParseUsers reads.
func (u Users) String() string { return strconv.Itoa(u.First) + "-" + strconv.Itoa(u.Last) }

// minUsers is the minimum size of a range. A node may have many works that have ended but are not removed yet.
const minUsers = 100

// ParseUsers parses a range such as 200000-265535. It rejects ids below 1000, which belong to the system, and
// ranges of fewer than 100 ids.
func ParseUsers(text string) (Users, error) {
	first, last, _ := strings.Cut(text, "-")
	a, errFirst := strconv.Atoi(first)
	b, errLast := strconv.Atoi(last)
	const firstUser, noUser = 1000, 1<<32 - 2
	switch {
	case errFirst != nil || errLast != nil:
		return Users{}, fmt.Errorf("want a range of user ids such as 200000-265535, got %q", text)
	case a < firstUser || b > noUser || b-a+1 < minUsers:
		return Users{}, fmt.Errorf("want a range of at least %d user ids, none of them below %d; got %q", minUsers, firstUser, text)
	}
	return Users{First: a, Last: b}, nil
}

// Contains reports whether the id is in the range.
func (u Users) Contains(id int) bool { return id >= u.First && id <= u.Last }

// Pick returns an id of the range that is not a key of the map taken and that no process of the machine has. It starts
// at a random id, so that two agents with the same range do not pick the same id, and an id is not used again soon.
func (u Users) Pick(random io.Reader, taken map[int]bool) (int, error) {
	size := u.Last - u.First + 1
	offset, err := rand.Int(random, big.NewInt(int64(size)))
	if err != nil {
		return 0, fmt.Errorf("choose a random user id: %w", err)
	}
	used, err := idsOfProcesses("/proc")
	if err != nil {
		return 0, err
	}
	for n := range size {
		id := u.First + (int(offset.Int64())+n)%size
		if !taken[id] && !used[id] {
			return id, nil
		}
	}
	return 0, errors.New("all user ids for works are in use; enlarge SERVICE_AGENT_WORK_USERS")
}

// idsOfProcesses returns the user ids of all running processes.
func idsOfProcesses(proc string) (map[int]bool, error) {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "status"))
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	ids := map[int]bool{}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // The process has ended.
		}
		for line := range bytes.Lines(status) {
			list, ok := bytes.CutPrefix(line, []byte("Uid:"))
			for field := range bytes.FieldsSeq(list) {
				if id, err := strconv.Atoi(string(field)); ok && err == nil {
					ids[id] = true
				}
			}
		}
	}
	return ids, nil
}

// Give makes the user the owner of the file or folder and of everything in it. It skips files with several names: one
// of the names may be outside the folder. No process may change the folder meanwhile.
func Give(path string, id int) error {
	return visit(path, func(root *os.Root, name string, info fs.FileInfo) error {
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok || (!info.IsDir() && s.Nlink > 1) || int(s.Uid) == id {
			return nil
		}
		return root.Lchown(name, id, id)
	})
}

// MakeReadable lets every user of the machine who can reach the file or folder read it and everything in it. No
// process may change the folder meanwhile.
func MakeReadable(path string) error {
	return visit(path, func(root *os.Root, name string, info fs.FileInfo) error {
		before := info.Mode().Perm()
		mode := before | 0o444
		if info.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		if plain := info.IsDir() || info.Mode().IsRegular(); !plain || mode == before {
			return nil
		}
		return root.Chmod(name, mode)
	})
}

// visit calls the function fn for the file or folder and for everything in it.
func visit(path string, fn func(root *os.Root, name string, info fs.FileInfo) error) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("open the folder of %s: %w", path, err)
	}
	defer func() { _ = root.Close() }()
	err = fs.WalkDir(root.FS(), filepath.Base(path), func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return fn(root, name, info)
	})
	if err != nil {
		return fmt.Errorf("give works access to %s: %w", path, err)
	}
	return nil
}

// OpenRegular opens a file below dir for reading. The folder may belong to a work: OpenRegular follows no symbolic
// links and opens only regular files without a second hard link.
func OpenRegular(dir, name string) (*os.File, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	// O_NONBLOCK: opening a named pipe would otherwise wait for a writer.
	fd, err := unix.Openat2(at, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: err}
	}
	f := os.NewFile(uintptr(fd), filepath.Join(dir, name))
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil || info.Mode&unix.S_IFMT != unix.S_IFREG || info.Nlink != 1 {
		_ = f.Close()
		return nil, &fs.PathError{Op: "open", Path: f.Name(), Err: cmp.Or(err, errors.New("not a regular file, or a file with a second hard link"))}
	}
	return f, nil
}
