package packager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"unicode/utf8"
)

const (
	// windowSize is how much of a file is searched at a time.
	windowSize = 256 << 10
	// overlap is how much of a window is searched again with the next one, so that no secret is cut.
	overlap = 16 << 10
	// headSize is how much of a file decides whether it is a text.
	headSize = 8 << 10
)

// finding is a secret in the content of a file.
type finding struct {
	rule string
	line int
}

// content is what one reading of a file has found.
type content struct {
	size    int64
	sha256  string
	finding *finding
}

// newWindow returns the memory for read.
func newWindow() []byte { return make([]byte, 0, overlap+windowSize) }

// read reads a file to its end. It stops searching at the first secret. It returns errLarge if the file has more than most bytes.
// The window is used for one file at a time. The end of the context ends the reading, also within a window.
func read(ctx context.Context, r io.Reader, shapes []shape, most int64, window []byte) (content, error) {
	s := &scanner{shapes: shapes}
	h := sha256.New()
	window = window[:0]
	var size int64
	for {
		if err := ctx.Err(); err != nil {
			return content{}, err
		}
		begin := len(window)
		n, err := io.ReadFull(r, window[begin:begin+windowSize])
		window = window[:begin+n]
		if size += int64(n); size > most {
			return content{}, errLarge
		}
		_, _ = h.Write(window[begin:])
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return content{}, err
		}
		if n > 0 {
			if err := s.search(ctx, window); err != nil {
				return content{}, err
			}
		}
		if end {
			return content{size: size, sha256: hex.EncodeToString(h.Sum(nil)), finding: s.found}, nil
		}
		window = s.keep(window)
	}
}

// scanner searches a file for secrets, one window after the other.
type scanner struct {
	shapes []shape
	found  *finding
	begun  bool
	binary bool
	wide   binary.ByteOrder // of a text in UTF-16, and otherwise nil
	lines  int              // complete lines before the window
}

// search searches a window.
func (s *scanner) search(ctx context.Context, window []byte) error {
	if s.found != nil {
		return nil
	}
	if !s.begun {
		s.begin(window[:min(len(window), headSize)])
	}
	window = s.text(window)
	var lower []byte
	folded := func() []byte {
		if lower == nil {
			lower = bytes.ToLower(window)
		}
		return lower
	}
	for _, h := range s.shapes {
		if s.binary && h.text {
			continue
		}
		at, err := h.find(ctx, window, folded)
		if err != nil {
			return err
		}
		if at >= 0 {
			s.found = &finding{rule: h.name}
			if !s.binary {
				s.found.line = s.lines + 1 + bytes.Count(window[:at], []byte("\n"))
			}
			return nil
		}
	}
	return nil
}

// begin decides by the first bytes of a file what it is.
func (s *scanner) begin(head []byte) {
	s.begun = true
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		s.wide = binary.LittleEndian
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		s.wide = binary.BigEndian
	}
	if s.wide != nil && bytes.IndexByte(s.text(head), 0) >= 0 {
		s.wide = nil
	}
	s.binary = s.wide == nil && bytes.IndexByte(head, 0) >= 0
}

// text returns a part of a file as UTF-8 if the file is in UTF-16, and otherwise as it is. No part begins within a unit, because
// the sizes of the window and of what is kept of it are even. The halves of rare characters become replacements.
func (s *scanner) text(part []byte) []byte {
	if s.wide == nil {
		return part
	}
	out := make([]byte, 0, len(part))
	for ; len(part) > 1; part = part[2:] {
		out = utf8.AppendRune(out, rune(s.wide.Uint16(part)))
	}
	return out
}

// keep moves the end of a window to its beginning and returns it.
func (s *scanner) keep(window []byte) []byte {
	dropped := max(len(window)-overlap, 0)
	s.lines += bytes.Count(s.text(window[:dropped]), []byte("\n"))
	n := copy(window, window[dropped:])
	return window[:n]
}
