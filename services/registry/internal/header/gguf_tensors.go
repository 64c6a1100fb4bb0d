package header

import (
	"fmt"
	"math"
)

// tensors reads the list of tensors and adds up what they hold.
func (g *gguf) tensors(n uint64) error {
	held := map[string]uint64{}
	total := uint64(0)
	for range n {
		count, dtype, err := g.tensor()
		if err != nil {
			return err
		}
		if total += count; total > math.MaxInt64 || count > math.MaxInt64 {
			return malformed("its tensors have more elements than can be")
		}
		held[dtype] += count
	}
	g.facts.Parameters, g.facts.Dtype = int64(total), commonest(held)
	return nil
}

func (g *gguf) tensor() (count uint64, dtype string, err error) {
	if _, err := g.text(0); err != nil {
		return 0, "", err
	}
	rank, err := g.u32()
	if err != nil {
		return 0, "", err
	}
	if rank > maxDims {
		return 0, "", malformed("a tensor has %d dimensions", rank)
	}
	dims := make([]uint64, rank)
	for i := range dims {
		if dims[i], err = g.u64(); err != nil {
			return 0, "", err
		}
	}
	count, ok := elements(dims)
	if !ok {
		return 0, "", malformed("a tensor has more elements than can be")
	}
	kind, err := g.u32()
	if err != nil {
		return 0, "", err
	}
	offset, err := g.u64()
	if err != nil {
		return 0, "", err
	}
	if offset > uint64(g.file) {
		return 0, "", malformed("a tensor lies past the end of the file")
	}
	return count, ggufType(kind), nil
}

// ggufType names the types of tensors that are common; the others keep their number.
func ggufType(kind uint32) string {
	switch kind {
	case 0:
		return "f32"
	case 1:
		return "f16"
	case 2:
		return "q4_0"
	case 3:
		return "q4_1"
	case 6:
		return "q5_0"
	case 7:
		return "q5_1"
	case 8:
		return "q8_0"
	case 10:
		return "q2_k"
	case 11:
		return "q3_k"
	case 12:
		return "q4_k"
	case 13:
		return "q5_k"
	case 14:
		return "q6_k"
	case 30:
		return "bf16"
	}
	return fmt.Sprintf("ggml_%d", kind)
}
