package header

import (
	"fmt"
	"math"
)

// tensors reads the list of tensors and adds up what they hold.
func (g *gguf) tensors(n uint64) error {
	held := map[string]uint64{}
	total, end := uint64(0), uint64(0)
	for range n {
		t, err := g.tensor()
		if err != nil {
			return err
		}
		if total += t.count; total > math.MaxInt64 || t.count > math.MaxInt64 {
			return malformed("its tensors have more elements than can be")
		}
		held[t.kind.name] += t.count
		end = max(end, t.end)
	}
	// The weights follow the header, which may be padded; so this is the least that there must be.
	if have := uint64(g.file - g.taken()); end > have {
		return malformed("its tensors need %d bytes and %d follow its header", end, have)
	}
	g.facts.Parameters, g.facts.Dtype = int64(total), commonest(held)
	return nil
}

// ggufTensor is one tensor: how many elements it has, of which type, and where its last byte lies.
type ggufTensor struct {
	count, end uint64
	kind       ggufType
}

func (g *gguf) tensor() (t ggufTensor, err error) {
	if _, err := g.name(g.names); err != nil {
		return t, err
	}
	rank, err := g.u32()
	if err != nil {
		return t, err
	}
	if rank > maxDims {
		return t, malformed("a tensor has %d dimensions", rank)
	}
	dims := make([]uint64, rank)
	for i := range dims {
		if dims[i], err = g.u64(); err != nil {
			return t, err
		}
	}
	count, ok := elements(dims)
	if !ok {
		return t, malformed("a tensor has more elements than can be")
	}
	kind, err := g.u32()
	if err != nil {
		return t, err
	}
	offset, err := g.u64()
	if err != nil {
		return t, err
	}
	t = ggufTensor{count: count, kind: typeOf(kind)}
	size := t.kind.bytes(count)
	if offset > uint64(g.file) || size > uint64(g.file) {
		return t, malformed("a tensor lies past the end of the file")
	}
	t.end = offset + size
	return t, nil
}

// ggufType is how elements are stored: so many of them in a block of so many bytes.
type ggufType struct {
	name        string
	block, size uint64
}

// bytes is what so many elements take at least; types that are not known take none.
func (t ggufType) bytes(count uint64) uint64 {
	if t.block == 0 {
		return 0
	}
	if count/t.block > math.MaxInt64/t.size {
		return math.MaxUint64
	}
	return count / t.block * t.size
}

// typeOf knows the types of tensors that are common; the others keep their number.
func typeOf(kind uint32) ggufType {
	switch kind {
	case 0:
		return ggufType{"f32", 1, 4}
	case 1:
		return ggufType{"f16", 1, 2}
	case 2:
		return ggufType{"q4_0", 32, 18}
	case 3:
		return ggufType{"q4_1", 32, 20}
	case 6:
		return ggufType{"q5_0", 32, 22}
	case 7:
		return ggufType{"q5_1", 32, 24}
	case 8:
		return ggufType{"q8_0", 32, 34}
	case 10:
		return ggufType{"q2_k", 256, 84}
	case 11:
		return ggufType{"q3_k", 256, 110}
	case 12:
		return ggufType{"q4_k", 256, 144}
	case 13:
		return ggufType{"q5_k", 256, 176}
	case 14:
		return ggufType{"q6_k", 256, 210}
	case 30:
		return ggufType{"bf16", 1, 2}
	}
	return ggufType{name: fmt.Sprintf("ggml_%d", kind)}
}
