package logship

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// span is a range of the log file, in bytes, and its sequence number.
type span struct {
	Seq  int64 `json:"seq"`
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// line is one line of the journal: the beginning or the completion of a span.
type line struct {
	Span *span `json:"span,omitempty"`
	// Done is the sequence number of a completed span.
	Done int64 `json:"done,omitempty"`
	// Refused is the HTTP status if the server rejected the span.
	Refused int `json:"refused,omitempty"`
}

// journal is a file that records the spans of the log. At most one span is open: begun, but not finished yet.
type journal struct {
	file *os.File
	open *span
	last int64
	end  int64
}

func openJournal(path string) (*journal, error) {
	j := &journal{}
	whole, err := j.replay(path)
	if err != nil {
		return nil, err
	}
	j.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, localfile.PrivateMode)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	// A killed agent may have left an incomplete line. The agent sent nothing for that line, so remove the line.
	if err = j.file.Truncate(whole); err == nil {
		_, err = j.file.Seek(whole, 0)
	}
	if err != nil {
		_ = j.file.Close()
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return j, nil
}

// replay reads the journal and returns the length of its complete lines in bytes.
func (j *journal) replay(path string) (int64, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the journal: %w", err)
	}
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1]
	scanner := bufio.NewScanner(bytes.NewReader(whole))
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return 0, fmt.Errorf("decode a line of the journal: %w", err)
		}
		switch {
		case l.Span != nil:
			j.open, j.last, j.end = l.Span, l.Span.Seq, l.Span.To
		case j.open != nil && l.Done == j.open.Seq:
			j.open = nil
		}
	}
	return int64(len(whole)), nil
}

// begin assigns the next sequence number to the range that ends at the offset `to`, and syncs the journal.
func (j *journal) begin(to int64) (span, error) {
	s := span{Seq: j.last + 1, From: j.end, To: to}
	if err := j.append(line{Span: &s}); err != nil {
		return span{}, err
	}
	j.open, j.last, j.end = &s, s.Seq, s.To
	return s, nil
}

// finish completes the open span. The parameter refused is the HTTP status of a rejection, otherwise 0. If a power
// failure loses the new line of the journal, the span is sent again. This is harmless because the server ignores a
// sequence number that it has already stored.
func (j *journal) finish(refused int) error {
	err := j.append(line{Done: j.open.Seq, Refused: refused})
	j.open = nil
	return err
}

func (j *journal) append(l line) error {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(data, '\n'))
	}
	if err == nil && l.Span != nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

func (j *journal) close() { _ = j.file.Close() }
