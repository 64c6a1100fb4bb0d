// Package tablefeed streams the changes of lists of rows, such as those of GET /api/jobs and GET /api/runs.
//
// It promises:
//   - A table that a client builds from the events of Watch, and from the list after each reset, equals the list, on any
//     replica.
//   - A stream that is resumed on any replica misses no change and sends none twice.
//   - Each change is checked with the visibility that the row had directly before and after it. A client gets no row that
//     it may not see, and learns at once that a row has become hidden.
//   - A replica reads each change once for all of its streams.
//
// Triggers of the table record each change with what the filters depend on. store_feed.go gives the changes positions in
// the order in which they were committed, and store.go reads them for many filters at once. tables.go passes them to the
// streams of the replica, and watch.go is one stream. A Source describes what distinguishes one table from another.
package tablefeed

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
)

// Filter selects rows as the list does. Empty fields match every row.
type Filter struct {
	State                  string
	Project                string // key or ID
	Owner                  string // user name
	Labels                 []string
	Text                   string // a part of the name, or an ID
	CreatedFrom, CreatedTo *time.Time
	// More is what only the lists of one table have: a value whose JSON is an object. Source.Match compares it.
	More any
}

// Interest is a list whose changes someone follows: the rows that match the filter and that callers with the scope may
// see.
type Interest struct {
	Scope  authn.Scope
	Filter Filter
}

// Change is one change of a row, for some interests.
type Change[R any] struct {
	Seq int64
	ID  string // of the row
	// Row is the row after the change. It is the zero value if Shown is empty.
	Row R
	// Shown are the indexes of the interests that include the row after the change. It is empty if the row has changed
	// again; a later change then has the row.
	Shown []int32
	// Gone are the indexes of the interests that included the row only before the change.
	Gone []int32
}

// Page holds the changes after a position, in order. End is the position after them. Last is the newest position of the
// feed, and changes up to Oldest may have been deleted.
type Page[R any] struct {
	Changes           []Change[R]
	End, Last, Oldest int64
}

// Why a client must read the list again.
const (
	resetStart   = "start"
	resetExpired = "expired"
	resetChanged = "changed"
	resetSlow    = "slow"
)

// markBits is how many low bits of the id of an event hold the mark of the filters and rights that the stream has. The
// position of a change is in the bits above it. The mark makes a client that returns with other rights read the list
// again. Even with an equal mark by chance, a client gets no row that it may not see.
const markBits = 24

// markOf returns a number that changes with the filter and with what the caller may see and edit. It is never 0, so that
// the id of an event is never 0.
func markOf(caller *authn.Caller, in Interest) (int64, error) {
	roles := slices.SortedFunc(slices.Values(caller.Projects), func(a, b authn.ProjectRole) int { return cmp.Compare(a.Project, b.Project) })
	text, err := json.Marshal([]any{
		caller.Subject, caller.Role, roles, in.Scope.Admin, in.Scope.UserID, slices.Sorted(slices.Values(in.Scope.Projects)), in.Filter,
	})
	if err != nil {
		return 0, fmt.Errorf("encode the filters of a stream: %w", err)
	}
	sum := sha256.Sum256(text)
	return max(1, int64(binary.BigEndian.Uint32(sum[:])>>(32-markBits))), nil
}

// begin returns the position at which a stream begins that continues after the event with the given id, and the reason
// for a reset, or "".
func begin(after, mark int64) (position int64, reason string) {
	switch {
	case after == 0:
		return 0, resetStart
	case after&(1<<markBits-1) != mark:
		return after >> markBits, resetChanged
	}
	return after >> markBits, ""
}

// eventID returns the id of the event with a position.
func eventID(position, mark int64) int64 { return position<<markBits | mark }

// concerning returns the changes after a position that have an event for the interest k.
func concerning[R any](changes []Change[R], k int32, after int64) []Change[R] {
	var mine []Change[R]
	for _, c := range changes {
		if c.Seq > after && (slices.Contains(c.Shown, k) || slices.Contains(c.Gone, k)) {
			mine = append(mine, c)
		}
	}
	return mine
}
