// Package modelfile reads the headers of model files: GGUF metadata, safetensors headers and the configurations beside
// them, in single files, folders or tar files of folders. It loads no weights into memory, executes nothing and limits how much it reads.
// For a file whose header is wrong it returns an error and never crashes.
package modelfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// ErrMalformed is wrapped by the errors for files that are not valid in their format. The text of the error may be
// shown to users.
var ErrMalformed = errors.New("malformed model file")

const (
	// maxHeader is the maximum size of a header, in bytes.
	maxHeader = 64 << 20
	// maxTensors and maxPairs limit the number of tensors and of metadata values. maxDims limits the dimensions of a
	// tensor.
	maxTensors = 1 << 20
	maxPairs   = 1 << 16
	maxDims    = 8
	// maxText is the maximum length of a string that is read, and maxWord that of a string in Facts, both in bytes.
	maxText = 1 << 20
	maxWord = 256
)

// Facts are the properties stated in a file's header. Properties that the header does not state have the zero value.
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
	// Quantization is the method of a Hugging Face configuration. The type of most parameters is Dtype.
	Quantization string `json:"quantization,omitempty"`
	License      string `json:"license,omitempty"`
	// The properties of an adapter. BaseModel is the name in its configuration, which is often a path on the machine of
	// its training.
	AdapterType string `json:"adapter_type,omitempty"`
	AdapterRank int64  `json:"adapter_rank,omitempty"`
	BaseModel   string `json:"base_model,omitempty"`
}

// Numbers returns the facts without the texts, because the writer of the file can put any information into a text.
func (f Facts) Numbers() Facts {
	f.Architecture, f.Name, f.Dtype, f.ChatTemplateSHA256 = "", "", "", ""
	f.Quantization, f.License, f.AdapterType, f.BaseModel = "", "", "", ""
	return f
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// reader reads a header. left is the number of bytes that it may still read.
type reader struct {
	r    *bufio.Reader
	left int64
}

func newReader(r io.Reader, limit int64) *reader {
	return &reader{r: bufio.NewReader(r), left: limit}
}

func (r *reader) take(n int64) error {
	if n < 0 || n > r.left {
		return malformed("the header is longer than the file or than %d MiB", maxHeader>>20)
	}
	r.left -= n
	return nil
}

// full reads len(p) bytes into p.
func (r *reader) full(p []byte) error {
	if err := r.take(int64(len(p))); err != nil {
		return err
	}
	if _, err := io.ReadFull(r.r, p); err != nil {
		return ended(err)
	}
	return nil
}

// skip discards n bytes.
func (r *reader) skip(n int64) error {
	if err := r.take(n); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, r.r, n); err != nil {
		return ended(err)
	}
	return nil
}

// ended distinguishes a file that is too short, which is malformed, from a failure of the object store.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("the file ends inside the header")
	}
	return fmt.Errorf("read a model file: %w", err)
}

// elements multiplies the dimensions of a tensor. It returns false if the product exceeds 1<<62.
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

// commonest returns the key with the highest count. If several keys have this count, it returns the smallest of them.
func commonest(counts map[string]uint64) string {
	best, most := "", uint64(0)
	for k, n := range counts {
		if n > most || (n == most && (best == "" || k < best)) {
			best, most = k, n
		}
	}
	return best
}
