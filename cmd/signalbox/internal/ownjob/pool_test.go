package ownjob

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoosePool(t *testing.T) {
	t.Parallel()
	empty, cpus := Pool{Pool: "default"}, Pool{Pool: "default", Nodes: 2}
	h100, a100 := Pool{Pool: "h100", Nodes: 1, GPUsTotal: 8, GPUsFree: 3}, Pool{Pool: "a100", Nodes: 2, GPUsTotal: 16}
	for name, c := range map[string]struct {
		pools []Pool
		gpus  int
		want  string
	}{
		"only one":                {[]Pool{a100}, 0, "a100"},
		"default":                 {[]Pool{a100, cpus}, 0, "default"},
		"default without nodes":   {[]Pool{a100, empty}, 0, "a100"},
		"default without GPUs":    {[]Pool{cpus, h100}, 1, "h100"},
		"no node has joined":      {[]Pool{empty, {Pool: "b"}}, 0, "default"},
		"no node has GPUs at all": {[]Pool{cpus, {Pool: "b", Nodes: 1}}, 1, "default"},
	} {
		got, err := ChoosePool(c.pools, c.gpus)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	_, err := ChoosePool([]Pool{cpus, h100, a100}, 1)
	require.ErrorContains(t, err, "choose one with --pool: h100 (1 nodes, 3 of 8 GPUs free), a100 (2 nodes, 0 of 16 GPUs free)")
	_, err = ChoosePool(nil, 0)
	require.ErrorContains(t, err, "has no pool yet")
}
