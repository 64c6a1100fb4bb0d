// Package hold owns who has a folder. It promises that one process at a time holds a lock file, until it
// closes it or dies, and that whoever comes second changes nothing and is told who has it and where that
// one serves.
package hold

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/signalbox-dev/signalbox/platform/flock"
)

// Holder is the process that has a lock.
type Holder struct {
	PID int `json:"pid"`
	// Address is where it serves; empty until it does.
	Address string `json:"address,omitempty"`
}

// String names the holder as an error does: what is not known of it is left out.
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

// TakenError is a lock that another process has.
type TakenError struct{ Holder Holder }

// Error implements error.
func (e *TakenError) Error() string { return "held by another process" + e.Holder.String() }

// Hold is a lock that this process has.
type Hold struct{ file *flock.File }

// Take takes the lock of that path, or answers a TakenError at once.
func Take(path string) (*Hold, error) {
	file, err := flock.Try(path)
	if errors.Is(err, flock.ErrTaken) {
		return nil, &TakenError{Holder: read(path)}
	}
	if err != nil {
		return nil, err
	}
	h := &Hold{file: file}
	if err := h.write(Holder{PID: os.Getpid()}); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Free answers a TakenError where another process has the lock of that path.
func Free(path string) error {
	h, err := Take(path)
	if err != nil {
		return err
	}
	return h.Close()
}

// Tell says where this process serves.
func (h *Hold) Tell(address string) error { return h.write(Holder{PID: os.Getpid(), Address: address}) }

// Close lets the lock go.
func (h *Hold) Close() error { return errors.Join(h.file.Truncate(0), h.file.Close()) }

func (h *Hold) write(who Holder) error {
	raw, err := json.Marshal(who)
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

// maxHolder bounds what is read of a lock file.
const maxHolder = 4096

// read answers who has the file. What is there of a holder that was killed is not believed, and what the
// present one has not written yet is not known.
func read(path string) Holder {
	var who Holder
	file, err := os.Open(path)
	if err != nil {
		return who
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.NewSectionReader(file, 0, maxHolder))
	if err != nil || json.Unmarshal(raw, &who) != nil || who.PID <= 0 {
		return Holder{}
	}
	if errors.Is(syscall.Kill(who.PID, 0), syscall.ESRCH) {
		return Holder{}
	}
	return who
}
