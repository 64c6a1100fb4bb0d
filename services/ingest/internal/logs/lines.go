// Package logs owns the log lines of runs. It splits pieces of output into lines, numbers the lines from 1 without
// gaps, and stores many lines per row. The unfinished last line of a writer is stored separately, until the writer
// sends the rest, a newer attempt reports, or the run is closed.
package logs

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// MaxLine is the maximum length of a line in bytes. Longer lines are split.
const MaxLine = 64 << 10

// Split splits output into lines, as a terminal would show them; see the function shown. The parameter tail is the
// beginning of the first line. The result rest is the text after the last newline, which is the tail of the next call.
// It has only what a terminal still shows of that line, so the updates of a progress bar do not add up.
func Split(tail []byte, pieces []string) (lines [][]byte, rest []byte) {
	open := append([]byte{}, tail...)
	for _, piece := range pieces {
		for {
			before, after, ended := strings.Cut(piece, "\n")
			open = overwritten(append(open, before...))
			for len(open) > MaxLine {
				n := whole(open[:MaxLine])
				lines = append(lines, bytes.Clone(open[:n]))
				open = append([]byte{}, open[n:]...)
			}
			if !ended {
				break
			}
			lines = append(lines, shown(open))
			open, piece = []byte{}, after
		}
	}
	return lines, open
}

// overwritten removes the beginning of an unfinished line that carriage returns have overwritten. Carriage returns at its
// end stay, as one: the text that follows overwrites the line.
func overwritten(open []byte) []byte {
	if bytes.IndexByte(open, '\r') < 0 {
		return open
	}
	line := shown(open)
	if open[len(open)-1] == '\r' {
		line = append(line, '\r')
	}
	return line
}

// whole returns the length of b without an incomplete UTF-8 character at its end.
func whole(b []byte) int {
	for n := len(b) - 1; n >= 0 && n > len(b)-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			if utf8.FullRune(b[n:]) {
				return len(b)
			}
			return n
		}
	}
	return len(b)
}

// shown returns the text after the last carriage return, which is what remains visible on a terminal if a progress bar
// has overwritten the line. It ignores carriage returns at the end of the line.
func shown(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	return bytes.Clone(line[bytes.LastIndexByte(line, '\r')+1:])
}

// maxChunk is the approximate maximum number of bytes in a row.
const maxChunk = 256 << 10

// chunk holds the lines of one row.
type chunk struct {
	lines int
	data  []byte
}

// chunks distributes lines over rows.
func chunks(lines [][]byte) []chunk {
	var out []chunk
	var c chunk
	for _, line := range lines {
		c.data = append(append(c.data, line...), '\n')
		if c.lines++; len(c.data) >= maxChunk {
			out = append(out, c)
			c = chunk{}
		}
	}
	if c.lines > 0 {
		out = append(out, c)
	}
	return out
}
