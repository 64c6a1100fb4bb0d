// Package header reads what model files say of themselves: GGUF metadata and safetensors headers, alone
// or in a tar file of a Hugging Face folder. It reads no weights into memory, executes nothing, and
// bounds all that it reads: a file that lies about itself is an error, never a crash.
package header

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// ErrMalformed marks a file that is not what it claims to be. Its text may be shown.
var ErrMalformed = errors.New("malformed model file")

const (
	// maxHeader is the most that a header may have, in bytes.
	maxHeader = 64 << 20
	// maxTensors and maxPairs bound how much of it there may be.
	maxTensors = 1 << 20
	maxPairs   = 1 << 16
	maxDims    = 8
	// maxText is the longest text that is read, maxWord the longest that is shown.
	maxText = 1 << 20
	maxWord = 256
)

// Facts are what a file says of itself; what it does not say is absent.
type Facts struct {
	Architecture       string `json:"architecture,omitempty"`
	Name               string `json:"name,omitempty"`
	Parameters         int64  `json:"parameters"`
	Tensors            int    `json:"tensors"`
	Dtype              string `json:"dtype,omitempty"`
	ContextLength      int64  `json:"context_length,omitempty"`
	EmbeddingLength    int64  `json:"embedding_length,omitempty"`
	BlockCount         int64  `json:"block_count,omitempty"`
	VocabSize          int64  `json:"vocab_size,omitempty"`
	ChatTemplateSHA256 string `json:"chat_template_sha256,omitempty"`
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// reader counts what a header has taken.
type reader struct {
	r    *bufio.Reader
	left int64
}

func newReader(r io.Reader, limit int64) *reader {
	return &reader{r: bufio.NewReader(r), left: limit}
}

func (r *reader) take(n int64) error {
	if n < 0 || n > r.left {
		return malformed("its header is longer than the file, or than %d MiB", maxHeader>>20)
	}
	r.left -= n
	return nil
}

// full reads exactly into p.
func (r *reader) full(p []byte) error {
	if err := r.take(int64(len(p))); err != nil {
		return err
	}
	if _, err := io.ReadFull(r.r, p); err != nil {
		return ended(err)
	}
	return nil
}

// skip drops n bytes.
func (r *reader) skip(n int64) error {
	if err := r.take(n); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, r.r, n); err != nil {
		return ended(err)
	}
	return nil
}

// ended tells a file that is too short from a store that failed.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("it ends inside its header")
	}
	return fmt.Errorf("read a model file: %w", err)
}

// elements multiplies the sizes of a tensor; false where they cannot be.
func elements(dims []uint64) (uint64, bool) {
	n := uint64(1)
	for _, d := range dims {
		high, low := bits.Mul64(n, d)
		if high != 0 || low > 1<<62 {
			return 0, false
		}
		n = low
	}
	return n, true
}

// commonest is the key with the highest count, the smallest of equals.
func commonest(counts map[string]uint64) string {
	best, most := "", uint64(0)
	for k, n := range counts {
		if n > most || (n == most && (best == "" || k < best)) {
			best, most = k, n
		}
	}
	return best
}
