package logship

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Bounds limit how much of a work's output its log keeps. The zero value has no limits.
type Bounds struct {
	// Bytes is the maximum size of the log. The last lines and the notes do not count; they are always kept.
	Bytes int64 `json:"bytes,omitempty"`
	// Rate is the number of bytes per second by which the log may grow in the long run.
	Rate int64 `json:"rate,omitempty"`
}

const (
	// burstSeconds is the size of a burst: the log may grow at once by as much as the rate permits in this time.
	burstSeconds = 16
	// tailBytes is the number of bytes that are kept from the end of the dropped output.
	tailBytes = 64 << 10
)

// Output writes the output of a work to its log within bounds. If there is too much output, it drops the middle: the
// log gets the first part, a note that counts the dropped lines, and the last lines. Write never fails, because a work
// must not fail because of its log. What cannot be written, for example because the disk is full, is dropped too.
type Output struct {
	log    io.Writer
	clock  clock.Clock
	bounds Bounds

	size     int64 // size of the log in bytes
	tokens   float64
	at       time.Time // when refill last changed tokens
	full     bool      // the log has its maximum size
	dropping bool
	tail     []byte // the end of the output that is not in the log
	lost     struct{ bytes, lines int64 }
}

// NewOutput returns an Output for a log of the given size.
func NewOutput(log io.Writer, size int64, b Bounds, clk clock.Clock) *Output {
	return &Output{log: log, clock: clk, bounds: b, size: size, tokens: burstSeconds * float64(b.Rate), at: clk.Now()}
}

// Write writes p to the log as far as the bounds permit.
func (o *Output) Write(p []byte) (int, error) {
	if o.dropping && !o.resume() {
		o.drop(p)
		return len(p), nil
	}
	keep := o.allowed(p)
	if !o.append(p[:keep]) {
		keep = 0 // A part may have been written. Count it as dropped too; the next write begins a new line.
	}
	if keep < len(p) {
		o.dropping = true
		o.drop(p[keep:])
	}
	return len(p), nil
}

// Close writes the last lines of the dropped output.
func (o *Output) Close() {
	if o.dropping {
		o.append(o.settle())
	}
}

// refill adds the tokens for the time that has passed since the last refill.
func (o *Output) refill() {
	now, rate := o.clock.Now(), float64(o.bounds.Rate)
	o.tokens = min(o.tokens+now.Sub(o.at).Seconds()*rate, burstSeconds*rate)
	o.at = now
}

// allowed returns how many bytes of p the log may take now. If it cannot take all of p, the bytes that it can take
// end at a line break if possible.
func (o *Output) allowed(p []byte) int {
	room := int64(len(p))
	if o.bounds.Rate > 0 {
		o.refill()
		room = min(room, int64(o.tokens))
	}
	if left := o.bounds.Bytes - o.size; o.bounds.Bytes > 0 && left < room {
		room, o.full = left, true
	}
	room = max(room, 0)
	if room == int64(len(p)) {
		return len(p)
	}
	if end := bytes.LastIndexByte(p[:room], '\n'); end >= 0 || room < longLine {
		return end + 1
	}
	return int(room)
}

// longLine is the number of bytes after which a line may be cut.
const longLine = 4096

// resume stops dropping output if the log may again grow by the output of one second and by the kept last lines. It
// reports whether it has stopped dropping.
func (o *Output) resume() bool {
	if o.full {
		return false
	}
	if o.bounds.Rate > 0 {
		if o.refill(); o.tokens < min(float64(o.bounds.Rate)+tailBytes, burstSeconds*float64(o.bounds.Rate)) {
			return false
		}
	}
	if !o.append(o.settle()) {
		return false
	}
	o.dropping, o.tail = false, nil
	o.lost.bytes, o.lost.lines = 0, 0
	return true
}

func (o *Output) append(p []byte) bool {
	n, err := o.log.Write(p)
	o.size, o.tokens = o.size+int64(n), o.tokens-float64(n)
	return err == nil
}

func (o *Output) drop(p []byte) {
	if len(p) > tailBytes {
		o.lose(o.tail)
		o.lose(p[:len(p)-tailBytes])
		o.tail = append(o.tail[:0], p[len(p)-tailBytes:]...)
		return
	}
	o.tail = append(o.tail, p...)
	if len(o.tail) > 2*tailBytes { // trim copies the tail, so do not call it for each write
		o.trim()
	}
}

func (o *Output) trim() {
	if extra := len(o.tail) - tailBytes; extra > 0 {
		o.lose(o.tail[:extra])
		o.tail = append(o.tail[:0], o.tail[extra:]...)
	}
}

func (o *Output) lose(p []byte) {
	o.lost.bytes += int64(len(p))
	o.lost.lines += int64(bytes.Count(p, []byte{'\n'}))
}

// settle returns the note on the dropped output and its last whole lines.
func (o *Output) settle() []byte {
	o.trim()
	if o.lost.bytes == 0 {
		return o.tail
	}
	if end := bytes.IndexByte(o.tail, '\n'); end >= 0 && end+1 < len(o.tail) {
		o.lose(o.tail[:end+1])
		o.tail = o.tail[end+1:]
	}
	note := fmt.Sprintf("\n[signalbox: %d lines (%d bytes) of the output were dropped here, because the output exceeded the limits of the log]\n",
		o.lost.lines, o.lost.bytes)
	return append([]byte(note), o.tail...)
}
