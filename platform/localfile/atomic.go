package localfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// PrivateMode is the mode of every file that may contain a secret.
const PrivateMode os.FileMode = 0o600

// Write durably replaces the file at path.
func Write(path string, data []byte, mode os.FileMode) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("create %s: %w", filepath.Base(path), err)
	}
	if err = narrow(f, mode); err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return SyncDir(filepath.Dir(path))
}

// narrow removes permissions beyond mode, which the file of a process that was killed can have.
func narrow(f *os.File, mode os.FileMode) error {
	info, err := f.Stat()
	if err != nil || info.Mode().Perm()&^mode == 0 {
		return err
	}
	return f.Chmod(mode)
}

// WriteJSON durably replaces the file at path with the encoded value.
func WriteJSON(path string, value any, mode os.FileMode) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return Write(path, data, mode)
}

// ReadJSON reads a file written by WriteJSON. It returns fs.ErrNotExist if the file is missing.
func ReadJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s: %w", filepath.Base(path), err)
	}
	return nil
}

// SyncDir makes the entries of a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", filepath.Base(dir), err)
	}
	return nil
}
