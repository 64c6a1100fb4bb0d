package catalog

import (
	"context"
	"time"
)

// The kinds of nodes of a lineage.
const (
	kindDataset  = "dataset_version"
	kindRun      = "run"
	kindModel    = "model_version"
	kindRevision = "revision"
)

// place identifies an object: the id of a run, the reference of a version, or the deployment id and number of a revision.
type place struct{ kind, ref string }

// node is an object of a lineage. Only its place and distance are set if the caller may not read the object.
type node struct {
	place

	visible                    bool
	distance                   int
	id, name, version, project string
	state, digest, jobID       string
	createdAt                  time.Time
	more                       bool
	madeFrom                   []hop // complete
}

// hop is a step of a lineage: target was made from source.
type hop struct {
	source, target   place
	relation, detail string
}

// maxFanout is the maximum number of objects of one kind that are listed as made from one object.
const maxFanout = 50

// sources reads the objects of a lineage with the rights of the caller, from the services that own them.
type sources interface {
	// read returns the objects that the caller may read.
	read(ctx context.Context, places []place) ([]*node, error)
	// madeFrom returns the objects that were made from each node, whether or not the caller may read them: at most
	// maxFanout+1 of one node and kind.
	madeFrom(ctx context.Context, nodes []*node) ([]hop, error)
}

// walk collects a lineage.
type walk struct {
	from  sources
	limit int // the maximum number of nodes
	nodes []*node
	known map[place]*node
	hops  []hop
	seen  map[hop]bool
}

func newWalk(from sources, root *node, limit int) *walk {
	return &walk{from: from, limit: limit, nodes: []*node{root}, known: map[place]*node{root.place: root}, seen: map[hop]bool{}}
}

// follow adds the nodes that are at most depth steps from the root. A negative direction leads to what the root was
// made from, a positive one to what was made from it. One more step is looked up, to know which nodes have more.
func (w *walk) follow(ctx context.Context, direction, depth int) error {
	frontier := w.nodes[:1]
	for step := 1; len(frontier) > 0; step++ {
		hops, err := w.step(ctx, frontier, direction)
		if err != nil {
			return err
		}
		found := w.admit(hops, direction, step, step <= depth)
		if err := w.load(ctx, found); err != nil {
			return err
		}
		w.connect(hops)
		frontier = frontier[:0:0]
		for _, n := range found {
			if n.visible {
				frontier = append(frontier, n)
			}
		}
	}
	return nil
}

func (w *walk) step(ctx context.Context, frontier []*node, direction int) ([]hop, error) {
	if direction > 0 {
		hops, err := w.from.madeFrom(ctx, frontier)
		return w.cut(hops), err
	}
	var hops []hop
	for _, n := range frontier {
		hops = append(hops, n.madeFrom...)
	}
	return hops, nil
}

// cut limits the hops from each node to maxFanout of each kind.
func (w *walk) cut(hops []hop) []hop {
	type branch struct {
		source place
		kind   string
	}
	count := map[branch]int{}
	kept := hops[:0]
	for _, h := range hops {
		b := branch{h.source, h.target.kind}
		if count[b]++; count[b] > maxFanout {
			w.known[h.source].more = true
			continue
		}
		kept = append(kept, h)
	}
	return kept
}

// admit adds the new nodes at the ends of the hops, if the graph has room for them, and returns them. The node at the
// near end of a hop whose far end is not added has more neighbors than shown.
func (w *walk) admit(hops []hop, direction, step int, within bool) []*node {
	var found []*node
	for _, h := range hops {
		near, far := h.target, h.source
		if direction > 0 {
			near, far = far, near
		}
		switch {
		case w.known[far] != nil:
		case !within || len(w.nodes) >= w.limit:
			w.known[near].more = true
		default:
			n := &node{place: far, distance: direction * step}
			w.known[far], w.nodes, found = n, append(w.nodes, n), append(found, n)
		}
	}
	return found
}

// load reads the new nodes. Those that the caller may not read stay hidden.
func (w *walk) load(ctx context.Context, found []*node) error {
	if len(found) == 0 {
		return nil
	}
	places := make([]place, len(found))
	for i, n := range found {
		places[i] = n.place
	}
	read, err := w.from.read(ctx, places)
	if err != nil {
		return err
	}
	for _, r := range read {
		if n := w.known[r.place]; n != nil && !n.visible {
			r.distance = n.distance
			*n = *r
		}
	}
	return nil
}

// connect adds the hops between nodes of the graph.
func (w *walk) connect(hops []hop) {
	for _, h := range hops {
		if w.known[h.source] != nil && w.known[h.target] != nil && !w.seen[h] {
			w.seen[h] = true
			w.hops = append(w.hops, h)
		}
	}
}
