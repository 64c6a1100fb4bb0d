package recipe

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"time"
)

// packed is a version with the tar file of its tree.
type packed struct {
	*Version

	tree []byte
}

// readAll reads every recipe in files, ordered by name.
func readAll(files fs.FS, manifestName string) ([]packed, error) {
	found, err := fs.Glob(files, "*/*/"+manifestName)
	if err != nil {
		return nil, fmt.Errorf("find recipes: %w", err)
	}
	sort.Strings(found)
	all := make([]packed, 0, len(found))
	for _, file := range found {
		p, err := readOne(files, path.Dir(file), manifestName)
		if err != nil {
			return nil, fmt.Errorf("read recipe %s: %w", path.Dir(file), err)
		}
		all = append(all, p)
	}
	return all, nil
}

func readOne(files fs.FS, dir, manifestName string) (packed, error) {
	text, err := fs.ReadFile(files, path.Join(dir, manifestName))
	if err != nil {
		return packed{}, fmt.Errorf("read the manifest: %w", err)
	}
	m, err := read(text)
	if err != nil {
		return packed{}, err
	}
	if err := m.check(); err != nil {
		return packed{}, err
	}
	tree, err := pack(files, dir)
	if err != nil {
		return packed{}, err
	}
	sum := sha256.Sum256(tree)
	v := &Version{Manifest: m, Text: text, TreeSHA256: hex.EncodeToString(sum[:]), TreeBytes: int64(len(tree))}
	if v.Digest, err = digest(text, v.TreeSHA256); err != nil {
		return packed{}, err
	}
	if m.Requirements != "" {
		pins, err := fs.ReadFile(files, path.Join(dir, m.Requirements))
		if err != nil {
			return packed{}, fmt.Errorf("read the requirements: %w", err)
		}
		v.RequirementsText = string(pins)
	}
	return packed{Version: v, tree: tree}, nil
}

// pack writes the files of a folder to a tar file. The bytes of the tar file depend only on the names and contents of
// the files.
func pack(files fs.FS, dir string) ([]byte, error) {
	root, err := fs.Sub(files, dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	// WalkDir walks the files in lexical order.
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)),
			ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack the tree: %w", err)
	}
	return out.Bytes(), nil
}
