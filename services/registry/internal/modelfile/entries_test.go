package modelfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShards_entries_bound(t *testing.T) {
	t.Parallel()
	const three = `{"__metadata__":{},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`
	for most, good := range map[int]bool{4: true, 3: true, 2: false, 0: false} {
		s := &shards{held: map[string]uint64{}}
		spans, err := s.entries([]byte(three), most)
		if good {
			require.NoError(t, err)
			require.Len(t, spans, 2, "__metadata__ has no span")
			continue
		}
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, "more than")
		require.LessOrEqual(t, s.facts.Tensors, most, "entries beyond the bound are not read")
	}
}
