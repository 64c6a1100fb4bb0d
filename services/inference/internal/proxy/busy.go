package proxy

import (
	"math/rand/v2"
	"sync"

	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
)

// busy counts the open calls of each replica. Replicas without open calls have no entry.
type busy struct {
	mu   sync.Mutex
	open map[string]int
}

// choose returns the replicas in the order in which to try them. The first is the less busy of two random ones. The
// others follow in random order.
func (b *busy) choose(replicas []*routing.Replica) []*routing.Replica {
	order := make([]*routing.Replica, len(replicas))
	for i, j := range rand.Perm(len(replicas)) {
		order[i] = replicas[j]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(order) > 1 && b.open[order[1].ID] < b.open[order[0].ID] {
		order[0], order[1] = order[1], order[0]
	}
	return order
}

func (b *busy) enter(replicaID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[string]int{}
	}
	b.open[replicaID]++
}

func (b *busy) leave(replicaID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[replicaID]--; b.open[replicaID] <= 0 {
		delete(b.open, replicaID)
	}
}
