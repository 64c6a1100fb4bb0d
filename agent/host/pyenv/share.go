package pyenv

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sharedFiles is the folder of the large files of environments, each named after its content. The environments have hard
// links to them, so that a second environment with the same libraries takes no disk space for them. Works see
// environments read-only, and builds create files of their own.
const sharedFiles = "files"

// smallFile is the size in bytes below which files are not shared. Most of the space is in few large libraries.
const smallFile = 64 << 10

// share replaces the large files of a new environment by links to equal files of other environments, or adds them for
// later ones. It returns the size of these files, which counts once for all environments. No process of a build is left.
func (b *Builder) share(dir string) (shared int64, err error) {
	store := filepath.Join(b.dir, sharedFiles)
	if err := os.MkdirAll(store, 0o700); err != nil {
		return 0, fmt.Errorf("create the folder of shared files: %w", err)
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil || info.Size() < smallFile {
			return err
		}
		linked, err := shareFile(store, path, info)
		if linked {
			shared += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("share the files of an environment: %w", err)
	}
	return shared, nil
}

// shareFile makes the path a link to the shared file with its content. It returns false if the file keeps its own copy.
func shareFile(store, path string, info fs.FileInfo) (linked bool, err error) {
	name, err := contentName(path, info.Mode())
	if err != nil {
		return false, err
	}
	common := filepath.Join(store, name)
	err = os.Link(path, common)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err == nil, tooManyLinks(err)
	}
	had, err := os.Lstat(common)
	if err != nil || !had.Mode().IsRegular() || had.Size() != info.Size() {
		return false, err
	}
	next := path + buildInfix + "link"
	if err := os.Link(common, next); err != nil {
		return false, tooManyLinks(err)
	}
	return true, os.Rename(next, path)
}

// tooManyLinks returns the error of a link, or nil if the file system only permits no more links to the file.
func tooManyLinks(err error) error {
	if errors.Is(err, unix.EMLINK) {
		return nil
	}
	return err
}

// contentName returns the name of the shared file for a file. Programs are not shared with files that are not.
func contentName(path string, mode fs.FileMode) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	name := hex.EncodeToString(h.Sum(nil))
	const executable = 0o111
	if mode&executable != 0 {
		name += "-x"
	}
	return name, nil
}

// sweep removes the shared files that no environment has any more. It returns the sizes of those that it has removed and
// of those that are left. The caller makes sure that no builder is at work.
func (b *Builder) sweep() (freed, left int64, err error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, sharedFiles))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("list the shared files: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(b.dir, sharedFiles, e.Name())
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return freed, left, fmt.Errorf("read a shared file: %w", err)
		}
		if stat.Nlink > 1 {
			left += stat.Size
			continue
		}
		if err := os.Remove(path); err != nil {
			return freed, left, fmt.Errorf("remove a shared file: %w", err)
		}
		freed += stat.Size
	}
	return freed, left, nil
}
