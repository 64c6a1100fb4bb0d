package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrLineTooLong reports a line of standard input that exceeds its limit.
var ErrLineTooLong = errors.New("the line is too long")

// ReadLine returns the next line of standard input, of at most the given number of bytes, without its end. The error is
// io.EOF after the last line. Ctrl-C ends the wait for the line: ReadLine returns the cause of the end of ctx. The read
// itself, which cannot be ended, then ends with the process, so that nothing may be read after such an error.
func (s *Session) ReadLine(ctx context.Context, most int) (string, error) {
	if s.lines == nil {
		s.lines = bufio.NewReader(s.In)
	}
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := nextLine(s.lines, most)
		done <- result{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case r := <-done:
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return "", fmt.Errorf("read standard input: %w", r.err)
		}
		return r.line, r.err
	}
}

func nextLine(in *bufio.Reader, most int) (string, error) {
	var line strings.Builder
	for {
		part, err := in.ReadSlice('\n')
		line.Write(part)
		switch {
		case line.Len() > most+len("\r\n"):
			return "", ErrLineTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && line.Len() > 0:
			err = nil // the last line has no end
		}
		return strings.TrimRight(line.String(), "\r\n"), err
	}
}
