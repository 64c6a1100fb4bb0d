package localfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// Holder is the process that holds a lock.
type Holder struct {
	PID int `json:"pid"`
	// Address is the URL on which the process serves; empty until it does.
	Address string `json:"address,omitempty"`
}

// String describes the holder for the end of an error message. Unknown parts are left out.
func (h Holder) String() string {
	var out strings.Builder
	if h.PID > 0 {
		fmt.Fprintf(&out, ", process %d", h.PID)
	}
	if h.Address != "" {
		fmt.Fprintf(&out, ", serving on %s", h.Address)
	}
	return out.String()
}

// FolderLockedError reports a lock that another process holds.
type FolderLockedError struct{ Holder Holder }

// Error implements error.
func (e *FolderLockedError) Error() string { return "held by another process" + e.Holder.String() }

// FolderLock is a lock that this process holds.
type FolderLock struct{ file *LockedFile }

// LockFolder takes the lock at path. If another process holds it, LockFolder returns a FolderLockedError: at once if that
// process is recorded in the file and exists, otherwise after childTime.
func LockFolder(path string) (*FolderLock, error) {
	file, err := lockAfterChild(path, func() bool { return read(path).PID == 0 })
	if errors.Is(err, ErrLocked) {
		return nil, &FolderLockedError{Holder: read(path)}
	}
	if err != nil {
		return nil, err
	}
	h := &FolderLock{file: file}
	if err := h.write(Holder{PID: os.Getpid()}); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// CheckFolderFree returns a FolderLockedError if another process holds the lock at path.
func CheckFolderFree(path string) error {
	h, err := LockFolder(path)
	if err != nil {
		return err
	}
	return h.Close()
}

// SetAddress records in the lock file the address on which this process serves.
func (h *FolderLock) SetAddress(address string) error {
	return h.write(Holder{PID: os.Getpid(), Address: address})
}

// Close releases the lock.
func (h *FolderLock) Close() error { return errors.Join(h.file.Truncate(0), h.file.Close()) }

func (h *FolderLock) write(holder Holder) error {
	raw, err := json.Marshal(holder)
	if err != nil {
		return fmt.Errorf("encode the holder of a lock: %w", err)
	}
	if err := h.file.Truncate(0); err != nil {
		return fmt.Errorf("write the holder of a lock: %w", err)
	}
	if _, err := h.file.WriteAt(append(raw, '\n'), 0); err != nil {
		return fmt.Errorf("write the holder of a lock: %w", err)
	}
	return nil
}

// maxHolder is the maximum number of bytes read from a lock file.
const maxHolder = 4096

// read returns the holder that is recorded in the lock file. It returns the zero Holder if the file contains no holder
// yet, or if the recorded process no longer exists.
func read(path string) Holder {
	var holder Holder
	file, err := os.Open(path)
	if err != nil {
		return holder
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.NewSectionReader(file, 0, maxHolder))
	if err != nil || json.Unmarshal(raw, &holder) != nil || holder.PID <= 0 {
		return Holder{}
	}
	if errors.Is(syscall.Kill(holder.PID, 0), syscall.ESRCH) {
		return Holder{}
	}
	return holder
}
