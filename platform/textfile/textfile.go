// Package textfile reads text files as the programs of users write them.
package textfile

import (
	"bufio"
	"bytes"
)

// SkipByteOrderMark skips the byte order mark of UTF-8 at the current position of r. Some editors and spreadsheets begin
// a file with it, but it does not belong to the text.
func SkipByteOrderMark(r *bufio.Reader) {
	mark := []byte("\ufeff")
	// An error of Peek occurs again at the next read.
	if begin, err := r.Peek(len(mark)); err == nil && bytes.Equal(begin, mark) {
		_, _ = r.Discard(len(mark))
	}
}
