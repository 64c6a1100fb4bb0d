package audit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Rows with the same time are ordered by id, so reading page by page neither skips nor repeats a row.
func TestAfter_pagesThroughWholeList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 12 {
		if i%4 == 0 {
			b.clock.Advance(time.Microsecond)
		}
		b.record(t.Context(), t, audit.Entry{Action: []string{"a", "b", "c"}[i%3], TargetKind: "k", TargetID: fmt.Sprint(i)})
	}
	whole, err := audit.List(t.Context(), b.pool, audit.Filter{}, request.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, whole, 12)
	require.True(t, slices.IsSortedFunc(whole, func(x, y audit.Row) int { return x.Point().Compare(y.Point()) }))
	var read []audit.Row
	for after := (audit.Point{}); ; after = read[len(read)-1].Point() {
		part, err := audit.After(t.Context(), b.pool, audit.Filter{}, after, 5)
		require.NoError(t, err)
		points, err := audit.Points(t.Context(), b.pool, audit.Filter{}, after, 5)
		require.NoError(t, err)
		require.Len(t, points, len(part))
		for i := range part {
			require.Zero(t, points[i].Compare(part[i].Point()))
		}
		if len(part) == 0 {
			break
		}
		read = append(read, part...)
	}
	require.Equal(t, whole, read)
	some, err := audit.After(t.Context(), b.pool, audit.Filter{Action: "b"}, whole[3].Point(), 50)
	require.NoError(t, err)
	require.Equal(t, slices.DeleteFunc(slices.Clone(whole[4:]), func(r audit.Row) bool { return r.Action != "b" }), some)
}

func TestList_filtersByActorIDOrName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "1", Actor: &audit.Actor{Kind: "user", ID: "usr_1", Name: "ada"}},
		audit.Entry{Action: "a", TargetKind: "k", TargetID: "2", Actor: &audit.Actor{Kind: "user", ID: "usr_2", Name: "eve"}})
	for _, actor := range []string{"usr_1", "ada"} {
		found, err := audit.List(t.Context(), b.pool, audit.Filter{Actor: actor}, request.Page{Limit: 5})
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, "1", found[0].TargetID)
	}
	none, err := audit.List(t.Context(), b.pool, audit.Filter{Actor: "' OR '1'='1"}, request.Page{Limit: 5})
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestShorten_replacesStatesBeyondBudget(t *testing.T) {
	t.Parallel()
	long := json.RawMessage(`"` + strings.Repeat("x", 998) + `"`)
	short := json.RawMessage(`{"a":1}`)
	list := []audit.Row{{ID: "1", Before: long, After: long}, {ID: "2", Before: short, After: long}, {ID: "3"}}
	audit.Shorten(list, 2500)
	require.Equal(t, long, list[0].Before)
	require.Equal(t, long, list[0].After)
	require.Equal(t, short, list[1].Before)
	require.Contains(t, string(list[1].After), `"bytes":1000`)
	require.Contains(t, string(list[1].After), `"truncated":true`)
	require.True(t, json.Valid(list[1].After))
	require.Nil(t, list[2].Before)
	audit.Shorten(list, 0)
	require.Less(t, len(list[0].Before), 130)
	require.Equal(t, short, list[1].Before, "a state that is not longer than a digest is not replaced")
}
