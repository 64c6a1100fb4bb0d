package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// File is a HeadStore that appends signed heads to a file, one JSON object per line.
type File struct {
	path string
	mu   sync.Mutex
}

// NewFile returns a File for path. The first Put creates the file.
func NewFile(path string) *File { return &File{path: path} }

// Put implements HeadStore. The heads are synced to disk when it returns.
func (f *File) Put(_ context.Context, heads ...Checkpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []byte
	for i := range heads {
		line, err := json.Marshal(heads[i])
		if err != nil {
			return fmt.Errorf("encode an audit head: %w", err)
		}
		// The line break comes first, so that it also ends a line truncated by a crash.
		lines = append(append(lines, '\n'), line...)
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("create the folder of the audit heads: %w", err)
	}
	out, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the file of audit heads: %w", err)
	}
	_, err = out.Write(lines)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("write the file of audit heads: %w", err)
	}
	return nil
}

// Last implements HeadStore.
func (f *File) Last(context.Context) (last int64, err error) {
	heads, err := f.Checkpoints()
	for i := range heads {
		last = max(last, heads[i].Position)
	}
	return last, err
}

// Checkpoints returns all heads in the file. It skips a line that was truncated by a crash.
func (f *File) Checkpoints() ([]Checkpoint, error) {
	in, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the file of audit heads: %w", err)
	}
	defer func() { _ = in.Close() }()
	var out []Checkpoint
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		var c Checkpoint
		if len(bytes.TrimSpace(line)) > 0 && json.Unmarshal(line, &c) == nil {
			out = append(out, c)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the file of audit heads: %w", err)
		}
	}
}
