// Package logs owns the lines of runs: pieces of output become lines that are numbered without a gap from
// 1, kept many to a row. A line that a piece leaves open waits for its writer's next piece; the close of
// the run ends it.
package logs

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// MaxLine is the longest line in bytes; what is longer becomes several.
const MaxLine = 64 << 10

// Split cuts output into lines, the first of which begins with tail; what follows the last newline is the
// new tail.
func Split(tail []byte, pieces []string) (lines [][]byte, rest []byte) {
	open := append([]byte{}, tail...)
	for _, piece := range pieces {
		for {
			before, after, ended := strings.Cut(piece, "\n")
			open = append(open, before...)
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

// whole is how much of b, cut off anywhere, is whole characters.
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

// shown is what a terminal would show of a line that a progress bar wrote over with carriage returns.
func shown(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	return bytes.Clone(line[bytes.LastIndexByte(line, '\r')+1:])
}

// maxChunk is about how many bytes of lines a row holds.
const maxChunk = 256 << 10

// chunk is lines of one row.
type chunk struct {
	lines int
	data  []byte
}

// chunks puts lines into rows.
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
