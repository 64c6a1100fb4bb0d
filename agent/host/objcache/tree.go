package objcache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteTree writes the files of a tree to a folder in dir and returns the path of that folder. The folder's
// name is the digest of the files. A folder that already exists is not written again.
func WriteTree(tree fs.FS, dir string) (string, error) {
	digest, err := treeDigest(tree)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, digest)
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the folder of a tree: %w", err)
	}
	temp, err := os.MkdirTemp(dir, "part-")
	if err != nil {
		return "", fmt.Errorf("create the temporary folder of a tree: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if err := os.CopyFS(filepath.Join(temp, "tree"), tree); err != nil {
		return "", fmt.Errorf("copy a tree: %w", err)
	}
	err = os.Rename(filepath.Join(temp, "tree"), to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("rename the folder of a tree: %w", err)
	}
	return to, nil
}

func treeDigest(tree fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(tree, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		part := sha256.Sum256(data)
		_, err = fmt.Fprintf(sum, "%s %x\n", path, part)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read a tree: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
