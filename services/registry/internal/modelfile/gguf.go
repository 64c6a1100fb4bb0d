package modelfile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"strings"
)

const (
	ggufMagic    = "GGUF"
	ggufTokens   = "tokenizer.ggml.tokens" //nolint:gosec // the name of a value, not a credential
	ggufTemplate = "tokenizer.chat_template"
	// maxNesting is the maximum nesting depth of arrays.
	maxNesting = 4
	// maxName is the maximum length in bytes that the format allows for the name of a value. It is applied to tensor names
	// too.
	maxName = 1<<16 - 1
)

// The types of values in GGUF metadata.
const (
	ggufString = 8
	ggufArray  = 9
)

// ggufWidth returns the size of a scalar type, or 0 for other types.
func ggufWidth(kind uint32) int64 {
	switch kind {
	case 0, 1, 7: // uint8, int8, bool
		return 1
	case 2, 3: // uint16, int16
		return 2
	case 4, 5, 6: // uint32, int32, float32
		return 4
	case 10, 11, 12: // uint64, int64, float64
		return 8
	}
	return 0
}

// gguf is the state of reading a GGUF file.
type gguf struct {
	*reader

	facts Facts
	// file is the size of the file, and limit the maximum size of the header.
	file, limit int64
	// keys and names hold the names of the values and the tensors read so far. Duplicates are rejected because engines
	// disagree on which of two values they use.
	keys, names map[string]struct{}
}

// GGUF reads the header of a GGUF file whose size in bytes is given.
func GGUF(r io.Reader, size int64) (Facts, error) {
	limit := min(size, maxHeader)
	g := &gguf{
		reader: newReader(r, limit), limit: limit, file: size, keys: map[string]struct{}{}, names: map[string]struct{}{},
	}
	var start [8]byte
	if err := g.full(start[:]); err != nil {
		return Facts{}, err
	}
	version := binary.LittleEndian.Uint32(start[4:])
	if string(start[:4]) != ggufMagic || version < 2 || version > 3 {
		return Facts{}, malformed("not GGUF version 2 or 3")
	}
	tensors, err := g.u64()
	if err != nil {
		return Facts{}, err
	}
	pairs, err := g.u64()
	if err != nil {
		return Facts{}, err
	}
	if tensors > maxTensors || pairs > maxPairs {
		return Facts{}, malformed("the header states %d tensors and %d metadata values; at most %d and %d are allowed", tensors, pairs, maxTensors, maxPairs)
	}
	for range pairs {
		if err := g.pair(); err != nil {
			return Facts{}, err
		}
	}
	g.facts.Tensors = int(tensors)
	if err := g.tensors(tensors); err != nil {
		return Facts{}, err
	}
	return g.facts, nil
}

// taken returns the number of header bytes read so far.
func (g *gguf) taken() int64 { return g.limit - g.left }

func (g *gguf) u32() (uint32, error) {
	var b [4]byte
	err := g.full(b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

func (g *gguf) u64() (uint64, error) {
	var b [8]byte
	err := g.full(b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// text reads a string. If the string is longer than limit bytes, text skips it and returns "".
func (g *gguf) text(limit uint64) (string, error) {
	n, err := g.u64()
	if err != nil {
		return "", err
	}
	if n > math.MaxInt64 {
		return "", malformed("a string cannot have %d bytes", n)
	}
	if n > limit {
		return "", g.skip(int64(n))
	}
	b := make([]byte, n) // at most limit
	if err := g.full(b); err != nil {
		return "", err
	}
	return string(b), nil
}

// name reads the name of a value or a tensor and adds it to known. It rejects a name that known already contains.
func (g *gguf) name(known map[string]struct{}) (string, error) {
	n, err := g.u64()
	if err != nil {
		return "", err
	}
	if n > maxName {
		return "", malformed("a name has %d bytes; at most %d are allowed", n, maxName)
	}
	b := make([]byte, n)
	if err := g.full(b); err != nil {
		return "", err
	}
	if _, twice := known[string(b)]; twice {
		return "", malformed("duplicate name %.80q", b)
	}
	known[string(b)] = struct{}{}
	return string(b), nil
}

// pair reads one value of the metadata.
func (g *gguf) pair() error {
	key, err := g.name(g.keys)
	if err != nil {
		return err
	}
	kind, err := g.u32()
	if err != nil {
		return err
	}
	switch {
	case kind == ggufString:
		return g.textFact(key)
	case kind == ggufArray:
		n, err := g.array(0)
		if key == ggufTokens {
			g.facts.VocabSize = n
		}
		return err
	case ggufWidth(kind) == 0:
		return malformed("value %.80q has unknown type %d", key, kind)
	}
	return g.numberFact(key, kind)
}

func (g *gguf) textFact(key string) error {
	limit := uint64(0)
	switch key {
	case "general.architecture", "general.name", "general.license":
		limit = maxWord
	case ggufTemplate:
		limit = maxText
	}
	s, err := g.text(limit)
	if err != nil || s == "" {
		return err // Neither a text that is too long nor its digest is recorded.
	}
	switch key {
	case "general.architecture":
		g.facts.Architecture = strings.ToValidUTF8(s, "�")
	case "general.name":
		g.facts.Name = strings.ToValidUTF8(s, "�")
	case "general.license":
		g.facts.License = strings.ToValidUTF8(s, "�")
	case ggufTemplate:
		sum := sha256.Sum256([]byte(s))
		g.facts.ChatTemplateSHA256 = hex.EncodeToString(sum[:])
	}
	return nil
}

func (g *gguf) numberFact(key string, kind uint32) error {
	var b [8]byte
	if err := g.full(b[:ggufWidth(kind)]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(b[:])
	if kind == 6 || kind == 12 || n > math.MaxInt64 || negative(kind, b) {
		return nil // No fact is fractional or negative.
	}
	switch {
	case strings.HasSuffix(key, ".context_length"):
		g.facts.ContextLength = int64(n)
	case strings.HasSuffix(key, ".embedding_length"):
		g.facts.EmbeddingLength = int64(n)
	case strings.HasSuffix(key, ".block_count"):
		g.facts.BlockCount = int64(n)
	}
	return nil
}

// negative reports whether a value of one of the smaller signed types is negative.
func negative(kind uint32, b [8]byte) bool {
	switch kind {
	case 1: // int8
		return b[0] >= 0x80
	case 3: // int16
		return b[1] >= 0x80
	case 5: // int32
		return b[3] >= 0x80
	}
	return false
}

// array skips an array and returns its length.
func (g *gguf) array(depth int) (int64, error) {
	kind, err := g.u32()
	if err != nil {
		return 0, err
	}
	n, err := g.u64()
	if err != nil {
		return 0, err
	}
	if depth == maxNesting || n > uint64(maxHeader) {
		return 0, malformed("an array has too many elements (%d) or is nested too deeply (%d)", n, depth)
	}
	if w := ggufWidth(kind); w > 0 {
		return int64(n), g.skip(int64(n) * w)
	}
	for range n {
		switch kind {
		case ggufString:
			_, err = g.text(0)
		case ggufArray:
			_, err = g.array(depth + 1)
		default:
			err = malformed("an array has unknown element type %d", kind)
		}
		if err != nil {
			return 0, err
		}
	}
	return int64(n), nil
}
