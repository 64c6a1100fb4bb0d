package metric

import (
	"cmp"
	"slices"
)

// AllAttempts selects the points of all attempts, each attempt as series of its own.
const AllAttempts = -1

// attempts decides which points of a run readers see. A newer attempt hides the points of older attempts beyond the step
// at which it resumed, of every key. The points up to that step stay, but of two points of a key with the same step the
// later one counts. An attempt that has reported no step hides nothing.
type attempts struct {
	// bounds holds, for each attempt that hides points, the lowest step that this or any newer attempt hides, sorted by
	// attempt.
	bounds []bound
	// only is the attempt whose points are selected, whatever newer attempts hide; 0 if there is no such selection.
	only int32
}

// bound hides the points of older attempts whose step is low or greater.
type bound struct {
	attempt int32
	low     int64
}

// sealed returns bounds in the form that attempts needs. Each of the given bounds is that of its own attempt.
func sealed(bounds []bound) []bound {
	slices.SortFunc(bounds, func(x, y bound) int { return cmp.Compare(x.attempt, y.attempt) })
	for i := len(bounds) - 2; i >= 0; i-- {
		bounds[i].low = min(bounds[i].low, bounds[i+1].low)
	}
	return bounds
}

// selects reports whether some points may be hidden.
func (a *attempts) selects() bool { return len(a.bounds) > 0 || a.only > 0 }

// hidden reports whether readers do not see the point of an attempt.
func (a *attempts) hidden(attempt int32, step int64) bool {
	if a.only > 0 {
		return attempt != a.only
	}
	if len(a.bounds) == 0 {
		return false
	}
	at := a.after(attempt)
	return at < len(a.bounds) && step >= a.bounds[at].low
}

// after returns the index of the first bound of a newer attempt.
func (a *attempts) after(attempt int32) int {
	at, _ := slices.BinarySearchFunc(a.bounds, attempt+1, func(b bound, attempt int32) int { return cmp.Compare(b.attempt, attempt) })
	return at
}

// visible returns the highest visible step of an attempt that is at most the given step. A lower step must be visible.
func (a *attempts) visible(attempt int32, step int64) int64 {
	if a.only > 0 {
		return step
	}
	if at := a.after(attempt); at < len(a.bounds) && step >= a.bounds[at].low {
		return a.bounds[at].low - 1
	}
	return step
}
