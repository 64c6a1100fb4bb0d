package runsearch

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// maxGroupRuns is the maximum number of runs that a group names.
const maxGroupRuns = 100

// member is a run with what it is grouped by, as JSON or nil, and with its numbers.
type member struct {
	id     string
	keys   []*string
	values []*float64
	asOf   *time.Time
}

// group is a group of runs.
type group struct {
	keys  []*string
	count int32
	runs  []string
	asOf  *time.Time
	stats []statistic
}

// groups divides runs into groups.
type groups map[string]*group

func (g groups) add(m *member) {
	var name strings.Builder
	for _, key := range m.keys {
		if key == nil {
			name.WriteByte('-')
		} else {
			fmt.Fprintf(&name, "%d %s", len(*key), *key)
		}
	}
	to := g[name.String()]
	if to == nil {
		to = &group{keys: m.keys, stats: make([]statistic, len(m.values))}
		g[name.String()] = to
	}
	if to.count++; len(to.runs) < maxGroupRuns {
		to.runs = append(to.runs, m.id)
	}
	if m.asOf != nil && (to.asOf == nil || m.asOf.Before(*to.asOf)) {
		to.asOf = m.asOf
	}
	for i, x := range m.values {
		if x != nil && !math.IsNaN(*x) && !math.IsInf(*x, 0) {
			to.stats[i].add(*x)
		}
	}
}

// largest returns the groups, the largest first.
func (g groups) largest() []*group {
	names := slices.SortedFunc(maps.Keys(g), func(a, b string) int {
		return cmp.Or(cmp.Compare(g[b].count, g[a].count), cmp.Compare(a, b))
	})
	out := make([]*group, len(names))
	for i, name := range names {
		out[i] = g[name]
	}
	return out
}

// statistic summarizes numbers. square is the sum of the squared distances from the mean.
type statistic struct {
	count                   int32
	mean, square, low, high float64
}

func (s *statistic) add(x float64) {
	if s.count++; s.count == 1 {
		s.mean, s.low, s.high = x, x, x
		return
	}
	before := x - s.mean
	s.mean += before / float64(s.count)
	s.square += before * (x - s.mean)
	s.low, s.high = min(s.low, x), max(s.high, x)
}
