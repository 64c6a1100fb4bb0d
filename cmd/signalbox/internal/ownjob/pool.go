package ownjob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pool is a pool as GET /api/cluster has it.
type Pool struct {
	Pool      string `json:"pool"`
	Nodes     int    `json:"nodes"`
	GPUsTotal int    `json:"gpus_total"`
	GPUsFree  int    `json:"gpus_free"`
}

// usualPool is the name of the pool of a new installation.
const usualPool = "default"

// ChoosePool returns the pool of a job for which the user names none: of the pools whose nodes can have the requested GPUs, the one
// called default, or the only one. If no pool has such nodes, it chooses from all. The error lists the pools.
func ChoosePool(pools []Pool, gpus int) (string, error) {
	if len(pools) == 0 {
		return "", errors.New("the installation has no pool yet; an admin makes one with signalbox fleets create")
	}
	fit := slices.DeleteFunc(slices.Clone(pools), func(p Pool) bool { return p.Nodes == 0 || gpus > 0 && p.GPUsTotal == 0 })
	if len(fit) == 0 {
		fit = pools
	}
	if slices.ContainsFunc(fit, func(p Pool) bool { return p.Pool == usualPool }) {
		return usualPool, nil
	}
	if len(fit) == 1 {
		return fit[0].Pool, nil
	}
	const most = 20
	texts := make([]string, 0, most)
	for _, p := range fit[:min(len(fit), most)] {
		texts = append(texts, fmt.Sprintf("%s (%d nodes, %d of %d GPUs free)", p.Pool, p.Nodes, p.GPUsFree, p.GPUsTotal))
	}
	if len(fit) > most {
		texts = append(texts, fmt.Sprintf("and %d more", len(fit)-most))
	}
	return "", errors.New("several pools are possible; choose one with --pool: " + strings.Join(texts, ", "))
}
