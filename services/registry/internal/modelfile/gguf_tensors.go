package modelfile

import (
	"fmt"
	"math"
)

// tensors reads the list of tensors and adds up their elements.
func (g *gguf) tensors(n uint64) error {
	held := map[string]uint64{}
	total, end := uint64(0), uint64(0)
	for range n {
		t, err := g.tensor()
		if err != nil {
			return err
		}
		if total += t.count; total > math.MaxInt64 || t.count > math.MaxInt64 {
			return malformed("the tensors have too many elements")
		}
		held[t.kind.name] += t.count
		end = max(end, t.end)
	}
	// Padding may separate the header from the weights, so the weights have at most this many bytes.
	if have := uint64(g.file - g.taken()); end > have {
		return malformed("the tensors need %d bytes, but %d follow the header", end, have)
	}
	g.facts.Parameters, g.facts.Dtype = int64(total), commonest(held)
	return nil
}

// ggufTensor describes a tensor by the number of its elements, the offset of its end, and the type of its elements.
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
		return t, malformed("a tensor has %d dimensions; at most %d are allowed", rank, maxDims)
	}
	dims := make([]uint64, rank)
	for i := range dims {
		if dims[i], err = g.u64(); err != nil {
			return t, err
		}
	}
	count, ok := elements(dims)
	if !ok {
		return t, malformed("a tensor has too many elements")
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
		return t, malformed("a tensor extends past the end of the file")
	}
	t.end = offset + size
	return t, nil
}

// ggufType is a storage type. It stores each block of elements in a fixed number of bytes.
type ggufType struct {
	name        string
	block, size uint64 // the elements of a block, and its bytes
}

// bytes returns the minimum number of bytes that the given number of elements needs. It returns 0 for unknown types.
func (t ggufType) bytes(count uint64) uint64 {
	if t.block == 0 {
		return 0
	}
	if count/t.block > math.MaxInt64/t.size {
		return math.MaxUint64
	}
	return count / t.block * t.size
}

// typeOf returns the storage type that has the given number in the GGUF format. A type that is not listed has the
// number as its name.
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
