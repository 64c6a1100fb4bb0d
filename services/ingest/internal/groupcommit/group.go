package groupcommit

import (
	"context"
	"errors"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// itemError is the error of one item, which fails the transaction of its group but not the group's other items.
type itemError struct {
	item *waiting
	err  error
}

// Error implements error.
func (e *itemError) Error() string { return e.err.Error() }

// Unwrap returns the error of the item.
func (e *itemError) Unwrap() error { return e.err }

// group stores items in one transaction and sends each item its result. It leaves out the items whose callers no longer
// wait. If an item fails the transaction, the others are stored without it. If the transaction fails because of the
// database, group divides the items by run and stores each part on its own. The items of a run stay together in their
// order. A run whose items cannot be stored therefore does not delay other runs by one transaction for each of its
// items.
func (c *Committer) group(ctx context.Context, items []*waiting) {
	for {
		items = slices.DeleteFunc(slices.Clone(items), (*waiting).abandoned)
		if len(items) == 0 {
			return
		}
		results, err := c.attempt(ctx, items)
		if err == nil {
			for i, w := range items {
				w.result <- results[i]
			}
			return
		}
		failed, ok := errors.AsType[*itemError](err)
		if !ok {
			c.divide(ctx, items, err)
			return
		}
		failed.item.result <- result{err: failed.err}
		items = slices.DeleteFunc(items, func(w *waiting) bool { return w == failed.item })
	}
}

// divide stores the parts of a group whose transaction failed with err. A group of one run is divided only if one of
// its items may be the cause: if the database was unavailable, all items fail with err.
func (c *Committer) divide(ctx context.Context, items []*waiting, err error) {
	first, second := byRun(items)
	if len(second) == 0 && len(items) > 1 && !fault.Is(pg.Classify(err), fault.Unavailable) {
		first, second = items[:len(items)/2], items[len(items)/2:]
	}
	if len(second) == 0 {
		for _, w := range items {
			w.result <- result{err: err}
		}
		return
	}
	c.group(ctx, first)
	c.group(ctx, second)
}

// byRun divides items into two parts with half of the runs each. Both parts keep the order of the items. The second
// part is empty if all items belong to one run.
func byRun(items []*waiting) (first, second []*waiting) {
	var runs []string
	for _, w := range items {
		runs = append(runs, w.RunID)
	}
	slices.Sort(runs)
	runs = slices.Compact(runs)
	for _, w := range items {
		if at, _ := slices.BinarySearch(runs, w.RunID); 2*at < len(runs) {
			first = append(first, w)
		} else {
			second = append(second, w)
		}
	}
	return first, second
}
