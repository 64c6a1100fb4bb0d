package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// maxRead is how many bytes of a file are read for its first rows.
	maxRead = 4 << 20
	// maxRow is the size of the largest row shown, in bytes.
	maxRow = 64 << 10
	// maxShown bounds the total size of the rows in one response, so that they fit into a message.
	maxShown = 2 << 20
)

// row is a line of a jsonl file: its value, or a description of its error.
type row struct {
	value json.RawMessage
	wrong string
}

// rows returns the first rows of a file. more reports whether the file may have further rows.
func (s *Server) rows(ctx context.Context, d *Dataset, v *Version, f File, limit int) (rows []row, more bool, err error) {
	body, _, err := s.Blobs.Get(ctx, v.key(d, f.SHA256))
	if fault.Is(err, fault.Absent) {
		return nil, false, fault.New(fault.Dependency, "object_missing", "file %s is missing from the object store", f.Path)
	}
	if err != nil {
		return nil, false, fmt.Errorf("open a dataset file: %w", err)
	}
	defer func() { _ = body.Close() }()
	return firstRows(&io.LimitedReader{R: body, N: maxRead}, limit)
}

// firstRows reads at most limit lines, with values of at most maxShown bytes in total.
func firstRows(r *io.LimitedReader, limit int) (rows []row, more bool, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	total := 0
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, fmt.Errorf("read a dataset file: %w", err)
		}
		ended := errors.Is(err, io.EOF)
		if ended && r.N <= 0 {
			return rows, true, nil // the line is cut off at maxRead, and more lines may follow
		}
		if line = bytes.TrimSpace(line); len(line) == 0 && ended {
			return rows, false, nil
		}
		one := read(line)
		total += len(one.value)
		if len(rows) == limit || total > maxShown {
			return rows, true, nil
		}
		rows = append(rows, one)
		if ended {
			return rows, false, nil
		}
	}
}

func read(line []byte) row {
	switch {
	case len(line) > maxRow:
		return row{wrong: fmt.Sprintf("the row is longer than %d KiB", maxRow>>10)}
	case !json.Valid(line):
		return row{wrong: "the row is not JSON"}
	default:
		return row{value: line}
	}
}
