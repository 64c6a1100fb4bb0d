package localfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// RemoveTree removes the folder and everything in it, without following symbolic links. In contrast to os.RemoveAll, it
// also removes folders whose modes forbid that, and it needs few open files however deep the folders are nested.
func RemoveTree(path string) error {
	parent, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the folder above: %w", err)
	}
	defer func() { _ = parent.Close() }()
	name := filepath.Base(path)
	if info, err := parent.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil || !info.IsDir() {
		return errors.Join(err, parent.Remove(name))
	}
	makeOwn(parent, name)
	root, err := parent.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := (&tree{root: root}).empty(); err != nil {
		return err
	}
	return parent.Remove(name)
}

// makeOwn lets the user of this process read and change the folder. If it cannot, the removal of what is in the folder fails, or
// the process may do that anyway, so it returns no error.
func makeOwn(root *os.Root, dir string) {
	const own = 0o700
	_ = root.Chmod(dir, own)
}

// tree is a folder that is being emptied.
type tree struct {
	root *os.Root
	// moved is the number of the next folder that is moved to the top.
	moved int
}

// empty removes everything in the tree.
func (t *tree) empty() error {
	return t.each(".", func(e fs.DirEntry) error {
		if e.IsDir() {
			if err := t.clear(e.Name()); err != nil {
				return err
			}
		}
		return t.root.Remove(e.Name())
	})
}

// clear removes the files of a folder and moves its folders to the top of the tree, unless they are empty.
func (t *tree) clear(dir string) error {
	makeOwn(t.root, dir)
	return t.each(dir, func(e fs.DirEntry) error {
		path := filepath.Join(dir, e.Name())
		err := t.root.Remove(path)
		if e.IsDir() && errors.Is(err, fs.ErrExist) { // not empty
			return t.moveUp(path)
		}
		return err
	})
}

// moveUp moves a folder to the top of the tree.
func (t *tree) moveUp(path string) error {
	// The move changes the entry `..` of the folder, so the folder must be writable.
	makeOwn(t.root, path)
	for ; ; t.moved++ {
		name := ".moved-" + strconv.Itoa(t.moved)
		// An earlier removal may have left a folder of that name.
		if _, err := t.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return t.root.Rename(path, name)
		} else if err != nil {
			return err
		}
	}
}

// each calls the function fn for the entries of the folder until none is left. The function must remove each entry from
// the folder.
func (t *tree) each(dir string, fn func(fs.DirEntry) error) error {
	for {
		entries, err := t.some(dir)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if err := fn(e); err != nil {
				return err
			}
		}
	}
}

// some returns the first entries of the folder.
func (t *tree) some(dir string) ([]fs.DirEntry, error) {
	f, err := t.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	const page = 1000 // the folder may have any number of files
	entries, err := f.ReadDir(page)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}
