package header

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"strings"
)

// tensorEntry is one tensor in a safetensors header.
type tensorEntry struct {
	Dtype   string    `json:"dtype"`
	Shape   []uint64  `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// shards adds up the headers of the files of one model.
type shards struct {
	facts Facts
	held  map[string]uint64
}

// Safetensors reads the header of a safetensors file of that size.
func Safetensors(r io.Reader, size int64) (Facts, error) {
	s := &shards{held: map[string]uint64{}}
	if err := s.add(r, size); err != nil {
		return Facts{}, err
	}
	return s.sum(), nil
}

func (s *shards) sum() Facts {
	s.facts.Dtype = commonest(s.held)
	return s.facts
}

// add reads the header of one file.
func (s *shards) add(r io.Reader, size int64) error {
	in := newReader(r, min(size, maxHeader))
	var length [8]byte
	if err := in.full(length[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n < 2 || n > uint64(in.left) {
		return malformed("it is not safetensors: its header has %d bytes", n)
	}
	raw := make([]byte, n)
	if err := in.full(raw); err != nil {
		return err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return malformed("it is not safetensors: its header is no JSON object")
	}
	end := uint64(0)
	for name, entry := range entries {
		if name == "__metadata__" {
			continue
		}
		last, err := s.tensor(name, entry)
		if err != nil {
			return err
		}
		end = max(end, last)
	}
	if have := uint64(size) - 8 - n; end != have {
		return malformed("its tensors have %d bytes and its header names %d", have, end)
	}
	return nil
}

func (s *shards) tensor(name string, raw json.RawMessage) (end uint64, err error) {
	var t tensorEntry
	if err := json.Unmarshal(raw, &t); err != nil {
		return 0, malformed("the tensor %.80q is not described", name)
	}
	count, ok := elements(t.Shape)
	if !ok || len(t.Shape) > maxDims || t.Offsets[1] < t.Offsets[0] {
		return 0, malformed("the tensor %.80q has an impossible size", name)
	}
	if w := width(t.Dtype); w > 0 && (t.Offsets[1]-t.Offsets[0])/w != count {
		return 0, malformed("the tensor %.80q does not have the bytes of its shape", name)
	}
	total := uint64(s.facts.Parameters) + count
	if total > math.MaxInt64 {
		return 0, malformed("its tensors have more elements than can be")
	}
	s.facts.Parameters = int64(total)
	s.facts.Tensors++
	s.held[strings.ToLower(t.Dtype)] += count
	return t.Offsets[1], nil
}

// width is the size of an element, 0 where it is none of whole bytes that is known.
func width(dtype string) uint64 {
	switch dtype {
	case "F64", "I64", "U64":
		return 8
	case "F32", "I32", "U32":
		return 4
	case "F16", "BF16", "I16", "U16":
		return 2
	case "I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2":
		return 1
	}
	return 0
}
