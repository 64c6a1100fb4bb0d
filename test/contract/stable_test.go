package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/draw"
)

// growth is a list and what adds a row to it.
type growth struct {
	// path has its ids filled in, and a query where it takes one to read the list.
	path string
	// by names what tells its rows apart; `id` where it is empty.
	by string
	// add adds the row that has this number of all that are added.
	add func(n int)
	// comes is where what is added stands.
	comes place
	// late says that what is added is listed a little after it was added.
	late bool
	// size is that of a page where the list takes no limit.
	size int
	// reader reads it; an admin where it is nil.
	reader *client.Client
}

// place is where a list shows what is added to it.
type place int

const (
	byName  place = iota // among the others; by names the name
	inFront              // newest first
	behind               // oldest first: nothing is shown twice
)

// In `make test` one list in listShare is walked.
const listShare = 3

// atFirst is how many rows a list gets before it is walked.
const atFirst = 4

// stable walks every list page by page, with others that are added meanwhile and without: rows keep their order, none
// of those that were there is passed over, and none is shown twice where new ones come behind them.
func (w *world) stable(t *testing.T) {
	t.Helper()
	g, added := w.grower(t), 0
	lists := growing()
	for _, pattern := range draw.OneIn(draw.New(t), listShare, slices.Sorted(keys(lists))) {
		t.Run(strings.TrimPrefix(pattern, "/"), func(t *testing.T) {
			g := g.in(t)
			list := lists[pattern](g)
			add := func(n int) {
				was := 0
				if list.late {
					was = len(g.all(list))
				}
				for range n {
					added++
					list.add(added)
				}
				if list.late {
					g.await("what was added is listed", func() bool { return len(g.all(list)) >= was+n })
				}
			}
			add(max(atFirst, list.size+1))
			before, begun := g.all(list), added
			require.GreaterOrEqual(t, len(before), atFirst)
			size := max(2, len(before)/4)
			require.Equal(t, before, g.walk(list, size, func() {}), "page by page it is the same list")
			seen := g.walk(list, size, func() { add(1) })
			require.Equal(t, before, first(seen, before), "what was added moved or hid what was there")
			after := g.all(list)
			require.Equal(t, before, first(after, before))
			require.Greater(t, added, begun, "nothing was added while it was walked")
			require.Len(t, after, len(before)+added-begun)
			switch list.comes {
			case inFront:
				require.Equal(t, before, after[added-begun:], "the newest is the first")
			case behind:
				require.Equal(t, after, seen, "the newest is the last")
			case byName:
				ours := slices.DeleteFunc(after, func(name string) bool { return !strings.HasPrefix(name, rowPrefix) })
				require.GreaterOrEqual(t, len(ours), atFirst)
				require.IsIncreasing(t, ours, "it goes by name")
			}
		})
	}
	for pattern, list := range fixed() {
		t.Run(strings.TrimPrefix(pattern, "/"), func(t *testing.T) {
			g := g.in(t)
			list := list.of(g)
			all := g.all(list)
			require.NotEmpty(t, all)
			require.Equal(t, all, g.walk(list, 2, func() {}), "page by page it is the same list")
		})
	}
}

// walk reads a list page by page, with something done between the pages.
func (g *grower) walk(l growth, size int, between func()) []string {
	g.Helper()
	if l.size > 0 {
		size = l.size
	}
	all := []string{}
	for offset := 0; ; offset += size {
		page := g.page(l, size, offset)
		all = append(all, page...)
		if len(page) < size {
			return all
		}
		between()
	}
}

// all reads the whole list.
func (g *grower) all(l growth) []string {
	g.Helper()
	return g.walk(l, 500, func() {})
}

// page answers what tells the rows of a page apart.
func (g *grower) page(l growth, limit, offset int) []string {
	g.Helper()
	at, err := url.Parse(l.path)
	require.NoError(g, err)
	query := at.Query()
	query.Set("offset", fmt.Sprint(offset))
	if l.size == 0 {
		query.Set("limit", fmt.Sprint(limit))
	}
	at.RawQuery = query.Encode()
	reader := g.admin
	if l.reader != nil {
		reader = l.reader
	}
	var raw json.RawMessage
	g.do(reader, http.MethodGet, at.String(), nil, &raw)
	var shown []map[string]any
	if err := json.Unmarshal(raw, &shown); err != nil {
		var wrapped struct {
			Items []map[string]any `json:"items"`
		}
		require.NoError(g, json.Unmarshal(raw, &wrapped))
		shown = wrapped.Items
	}
	require.LessOrEqual(g, len(shown), limit)
	out := make([]string, len(shown))
	for i, row := range shown {
		by := l.by
		if by == "" {
			by = "id"
		}
		require.NotNil(g, row[by], "a row of %s has no %s", l.path, by)
		out[i] = fmt.Sprint(row[by])
	}
	return out
}

// first keeps of seen the first sight of each that was there before.
func first(seen, before []string) []string {
	out := []string{}
	for _, s := range seen {
		if slices.Contains(before, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
