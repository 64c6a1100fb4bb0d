package pyenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

const (
	// usesSuffix is the suffix of the folder that lists the works that use an environment.
	usesSuffix = ".uses"
	// lockSuffix is the suffix of an environment's build lock. The modification time of the lock file is the time at
	// which the environment was last requested.
	lockSuffix = ".lock"
	// trimLock is a lock file. Builders lock it in shared mode; the method trim locks it exclusively.
	trimLock = "trim" + lockSuffix
)

// use records that a work uses the environment. The record is valid until the work's folder is removed. Agents that
// share the environments see each other's records.
func use(dir, work string) error {
	if work == "" {
		return nil
	}
	if err := os.MkdirAll(dir+usesSuffix, 0o700); err != nil {
		return fmt.Errorf("create the list of works that use an environment: %w", err)
	}
	sum := sha256.Sum256([]byte(work))
	return localfile.Write(filepath.Join(dir+usesSuffix, hex.EncodeToString(sum[:8])), []byte(work), localfile.PrivateMode)
}

// used reports whether a work uses the environment. It removes the records of works whose folders are gone. Without a
// list of works, the environment counts as used, because earlier versions kept no list.
func used(dir string) (bool, error) {
	entries, err := os.ReadDir(dir + usesSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("list the works that use an environment: %w", err)
	}
	found := false
	for _, e := range entries {
		path := filepath.Join(dir+usesSuffix, e.Name())
		work, err := os.ReadFile(path)
		if err != nil {
			return false, fmt.Errorf("read which work uses an environment: %w", err)
		}
		if _, err := os.Stat(string(work)); !errors.Is(err, fs.ErrNotExist) {
			found = true
		} else if err := os.Remove(path); err != nil {
			return false, fmt.Errorf("remove the record of a work that used an environment: %w", err)
		}
	}
	return found, nil
}

// kept is an environment or a cached wheel on disk.
type kept struct {
	dir       string
	size      int64
	requested time.Time
}

// trim removes what builds have left behind. Then it removes the least recently requested environments until all
// together have at most b.max bytes, and trims the cached wheels in the same way. It keeps the environment in the folder
// `keep` and those that works use. While another builder is at work, trim does nothing: the builder that ends last trims.
func (b *Builder) trim(keep string) (freed int64, err error) {
	unlock, err := tryLock(filepath.Join(b.dir, trimLock))
	if unlock == nil || err != nil {
		return 0, err
	}
	defer unlock()
	if err := b.removeLeft(); err != nil {
		return 0, err
	}
	if b.wheels.max > 0 {
		if freed, err = b.wheels.trim(); err != nil {
			return freed, err
		}
	}
	gone, shared, err := b.sweep()
	freed += gone
	if err != nil || b.max <= 0 {
		return freed, err
	}
	all, total, err := b.environments()
	if err != nil {
		return freed, err
	}
	sort.Slice(all, func(i, j int) bool { return all[i].requested.Before(all[j].requested) })
	for _, k := range all {
		if total+shared <= b.max {
			break
		}
		inUse, err := used(k.dir)
		if err != nil {
			return freed, err
		}
		if inUse || k.dir == keep {
			continue
		}
		if err := remove(k.dir); err != nil {
			return freed, err
		}
		total, freed = total-k.size, freed+k.size
		gone, shared, err = b.sweep()
		if freed += gone; err != nil {
			return freed, err
		}
	}
	return freed, nil
}

// removeLeft removes the folders of builds that did not end, because their agents were killed, and the build locks
// without an environment, which failed builds leave. The caller has locked trimLock exclusively. A builder locks trimLock
// in shared mode before it opens a build lock or creates a folder, and until it has ended. So no builder uses these files.
func (b *Builder) removeLeft() error {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return fmt.Errorf("list the folder of environments: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(b.dir, e.Name())
		// Ignore errors, so that they do not fail the build that has just ended: a process of an earlier build may still
		// write, and the next call tries again.
		if unfinished(path) {
			_ = localfile.RemoveTree(path)
		} else if unusedLock(path) {
			_ = os.Remove(path)
		}
	}
	return nil
}

// buildInfix is in the names of the folders of builds that have not ended.
const buildInfix = ".build-"

// unfinished reports whether the path is the folder of a build that has not ended.
func unfinished(path string) bool { return strings.Contains(filepath.Base(path), buildInfix) }

// unusedLock reports whether the path is a build lock without an environment.
func unusedLock(path string) bool {
	dir, lock := strings.CutSuffix(path, lockSuffix)
	if !lock || filepath.Base(path) == trimLock {
		return false
	}
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// environments returns the complete environments and the sum of their sizes.
func (b *Builder) environments() (all []kept, total int64, err error) {
	markers, err := filepath.Glob(filepath.Join(b.dir, "*", marker))
	if err != nil {
		return nil, 0, fmt.Errorf("list the environments: %w", err)
	}
	for _, path := range markers {
		dir := filepath.Dir(path)
		if unfinished(dir) {
			continue
		}
		size, err := sizeOf(dir)
		if err != nil {
			return nil, 0, err
		}
		k := kept{dir: dir, size: size}
		if info, err := os.Stat(dir + lockSuffix); err == nil {
			k.requested = info.ModTime()
		}
		all, total = append(all, k), total+size
	}
	return all, total, nil
}

// remove removes an environment, its lock file and its list of works. The rename makes the environment incomplete at
// once; if the agent is killed, the next removal or build of the same environment removes the rest.
func remove(dir string) error {
	gone := dir + buildInfix + "removed"
	if err := errors.Join(localfile.RemoveTree(gone), os.Rename(dir, gone)); err != nil {
		return fmt.Errorf("remove an environment: %w", err)
	}
	if err := errors.Join(localfile.RemoveTree(gone), os.RemoveAll(dir+usesSuffix), os.RemoveAll(dir+lockSuffix)); err != nil {
		return fmt.Errorf("remove an environment: %w", err)
	}
	return nil
}

// sizeOf returns the size of an environment without its shared files. A build stores the size in the marker. Earlier versions did not, so sizeOf
// measures their environments.
func sizeOf(dir string) (int64, error) {
	raw, err := os.ReadFile(filepath.Join(dir, marker))
	if err != nil {
		return 0, fmt.Errorf("read the marker of the environment: %w", err)
	}
	if size, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return size, nil
	}
	return measure(dir)
}

// measure returns the sum of the sizes of the files in a folder.
func measure(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure the environment: %w", err)
	}
	return size, nil
}

// hold keeps trim from removing environments until the returned function is called.
func (b *Builder) hold(ctx context.Context) (unlock func(), err error) {
	return b.flock(ctx, filepath.Join(b.dir, trimLock), unix.LOCK_SH)
}

// tryLock locks a file exclusively. The returned function is nil if the file is locked already.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, localfile.PrivateMode)
	if err != nil {
		return nil, fmt.Errorf("open a lock of the environments: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock the environments: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
