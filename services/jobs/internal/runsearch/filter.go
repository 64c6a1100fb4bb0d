// Package runsearch finds runs by what they are and by what they reported. The reports are in the ingest service, so
// the package keeps a bounded copy of their hyperparameters and of the last, lowest and highest values of their metrics.
// It promises that a search returns only runs that the caller may read, and that a copy is never replaced by an older
// one. It also searches the jobs service by name and id, for GET /api/search.
package runsearch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// The limits of a filter: its levels, its comparisons, the values of one comparison with "in", and the bytes of a text.
const (
	maxLevels      = 8
	maxComparisons = 50
	maxValues      = 100
	maxText        = 512
)

// filter translates the filter of a request to SQL. It collects the faults of the whole filter.
type filter struct {
	*db.Selection

	comparisons int
	faults      []fault.Field
}

// no is the condition in place of a faulty one.
const no = `false`

func (f *filter) fault(loc []any, typ, format string, args ...any) string {
	f.faults = append(f.faults, fault.At(typ, fmt.Sprintf(format, args...), slices.Clone(loc)...))
	return no
}

// where adds the condition of a filter, which is JSON or empty, to the selection.
func (f *filter) where(given []byte) error {
	if len(given) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(given))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fault.InvalidFields(fault.At(fault.TypeJSON, "Input should be JSON", "filter")).Wrap(err)
	}
	f.And(f.node(v, 1, []any{"filter"}))
	if f.comparisons > maxComparisons {
		f.fault([]any{"filter"}, fault.TypeLong, "A filter has at most %d comparisons", maxComparisons)
	}
	if len(f.faults) > 0 {
		return fault.InvalidFields(f.faults...)
	}
	return nil
}

// node translates a condition. The number of its faults is bounded by that of its comparisons, after which it stops.
func (f *filter) node(v any, level int, loc []any) string {
	members, ok := v.(map[string]any)
	if !ok {
		return f.fault(loc, fault.TypeDictType, "Input should be an object with and, or, not or field")
	}
	if level > maxLevels {
		return f.fault(loc, fault.TypeLong, "A filter has at most %d levels", maxLevels)
	}
	if _, compares := members["field"]; compares {
		return f.comparison(members, loc)
	}
	if len(members) == 1 {
		for name, member := range members {
			switch name {
			case "and", "or":
				return f.group(name, member, level, append(loc, name))
			case "not":
				return `NOT (` + f.node(member, level+1, append(loc, name)) + `)`
			}
		}
	}
	return f.fault(loc, fault.TypeDictType, "Input should be an object with exactly one of and, or, not and field")
}

func (f *filter) group(name string, v any, level int, loc []any) string {
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > maxComparisons {
		return f.fault(loc, fault.TypeListType, "Input should be a list of 1 to %d conditions", maxComparisons)
	}
	parts := make([]string, 0, len(list))
	for i, member := range list {
		if f.comparisons > maxComparisons {
			return no
		}
		parts = append(parts, f.node(member, level+1, append(slices.Clip(loc), i)))
	}
	return `(` + strings.Join(parts, ` `+strings.ToUpper(name)+` `) + `)`
}
