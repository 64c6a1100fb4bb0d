package session

import (
	"context"
	"io"
)

// input is a reader whose reads end when a context ends.
type input struct {
	ctx  context.Context //nolint:containedctx // that of the command; a read has none of its own
	from io.Reader
	rest []byte
	err  error
}

// Interruptible returns a reader whose reads end with the error of ctx when ctx ends. Otherwise a command that waits for
// a line from a terminal would not end with Ctrl-C. A read that the end of ctx leaves behind ends with the process.
func Interruptible(ctx context.Context, from io.Reader) io.Reader {
	return &input{ctx: ctx, from: from}
}

// Read implements io.Reader.
func (r *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.rest) == 0 && r.err == nil {
		r.rest, r.err = await(r.ctx, func() ([]byte, error) {
			raw := make([]byte, len(p))
			n, err := r.from.Read(raw)
			return raw[:n], err
		})
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
