package session

import (
	"context"
	"io"
)

// input is a reader whose reads end when a context ends.
type input struct {
	ctx     context.Context //nolint:containedctx // that of the command; a read has none of its own
	from    io.Reader
	arrived chan part
	waiting bool
	rest    []byte
	err     error
}

// part is what one read has returned.
type part struct {
	bytes []byte
	err   error
}

// Interruptible returns a reader whose reads end with the error of ctx when ctx ends. Otherwise a command that waits for
// a line from a terminal would not end with Ctrl-C. A read that the end of ctx leaves behind ends with the process.
func Interruptible(ctx context.Context, from io.Reader) io.Reader {
	return &input{ctx: ctx, from: from, arrived: make(chan part, 1)}
}

// Read implements io.Reader.
func (r *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.rest) == 0 && r.err == nil {
		if err := r.next(len(p)); err != nil {
			return 0, err
		}
	}
	if len(r.rest) == 0 {
		err := r.err
		r.err = nil
		return 0, err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next waits for the next part.
func (r *input) next(size int) error {
	if !r.waiting {
		r.waiting = true
		go func() {
			raw := make([]byte, size)
			n, err := r.from.Read(raw)
			r.arrived <- part{raw[:n], err}
		}()
	}
	select {
	case got := <-r.arrived:
		r.waiting, r.rest, r.err = false, got.bytes, got.err
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}
