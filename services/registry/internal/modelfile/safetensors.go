package modelfile

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/canon"
)

const (
	// metadataName is the only entry of a safetensors header that is not a tensor.
	metadataName = "__metadata__"
	// maxDtype is the maximum length of a type name.
	maxDtype = 32
)

// tensorEntry is one tensor in a safetensors header.
type tensorEntry struct {
	Dtype   string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

// span is the range of a tensor's bytes.
type span struct{ begin, end uint64 }

// shards adds up the facts from the files of one model.
type shards struct {
	facts Facts
	held  map[string]uint64
}

// Safetensors reads the header of a safetensors file whose size in bytes is given.
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
	if string(length[:]) == "version " {
		return malformed("not a safetensors file, but a pointer to one: fetch the file itself with git lfs pull")
	}
	if n < 2 || n > uint64(in.left) {
		return malformed("not a safetensors file: the header has %d bytes; it must fit into the file and into %d MiB", n, maxHeader>>20)
	}
	raw := make([]byte, n)
	if err := in.full(raw); err != nil {
		return err
	}
	spans, err := s.entries(raw, maxTensors)
	if err != nil {
		return err
	}
	return whole(spans, uint64(size)-8-n)
}

// entries decodes the header entry by entry. It returns an error if there are more entries than the given maximum.
// Decoding the whole header into a map would need many times the size of the header in memory.
func (s *shards) entries(raw []byte, most int) ([]span, error) {
	var spans []span
	names := 0
	err := canon.Read(raw, canon.Rules{Depth: 1}, func(r *canon.Reader) error {
		return r.Object(func(name string) error {
			if names++; names > most {
				return malformed("the header has more than %d tensors", most)
			}
			entry, err := r.Raw()
			if err != nil || name == metadataName {
				return err
			}
			at, err := s.tensor(name, entry)
			spans = append(spans, at)
			return err
		})
	})
	twice, ok := errors.AsType[*canon.DuplicateError](err)
	switch {
	case ok:
		return nil, malformed("duplicate tensor %.80q", twice.Name)
	case err != nil && !errors.Is(err, ErrMalformed):
		return nil, noObject()
	case err != nil:
		return nil, err
	}
	return spans, nil
}

func noObject() error { return malformed("not a safetensors file: the header is not a JSON object") }

// whole rejects tensors that leave gaps in the bytes after the header, overlap, or do not extend to the end of the
// file.
func whole(spans []span, have uint64) error {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	end := uint64(0)
	for _, s := range spans {
		if s.begin != end {
			return malformed("the tensors overlap or leave a gap at byte %d", min(s.begin, end))
		}
		end = s.end
	}
	if end != have {
		if have < end {
			return malformed("the file has %d of %d bytes of tensor data: it is incomplete; copy or download it again", have, end)
		}
		return malformed("the file has %d bytes of tensor data; the header describes %d", have, end)
	}
	return nil
}

func (s *shards) tensor(name string, raw json.RawMessage) (span, error) {
	var t tensorEntry
	if err := json.Unmarshal(raw, &t); err != nil || t.Dtype == "" || len(t.Dtype) > maxDtype || t.Shape == nil || len(t.Offsets) != 2 {
		return span{}, malformed("tensor %.80q has no valid description", name)
	}
	at := span{t.Offsets[0], t.Offsets[1]}
	count, ok := elements(t.Shape)
	if !ok || len(t.Shape) > maxDims || at.end < at.begin {
		return span{}, malformed("tensor %.80q has an impossible size", name)
	}
	if w, size := width(t.Dtype), at.end-at.begin; w > 0 && (size%w != 0 || size/w != count) {
		return span{}, malformed("the size of tensor %.80q does not match its shape", name)
	}
	total := uint64(s.facts.Parameters) + count
	if total > math.MaxInt64 {
		return span{}, malformed("the tensors have too many elements")
	}
	s.facts.Parameters = int64(total)
	s.facts.Tensors++
	s.held[strings.ToLower(t.Dtype)] += count
	return at, nil
}

// width returns the size of an element in bytes. It returns 0 for an unknown type and for a type whose elements are not
// whole bytes.
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
