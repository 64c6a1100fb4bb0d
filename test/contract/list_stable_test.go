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

// growingList describes a list and how to add rows to it.
type growingList struct {
	// path is the path of the list with its ids and, if necessary, a query.
	path string
	// by is the member that identifies a row; `id` if it is empty.
	by string
	// add adds row number n.
	add func(n int)
	// position is the position at which the list shows added rows.
	position listPosition
	// late marks a list in which an added row appears only after some time.
	late bool
	// size is the fixed page size of a list without the parameter `limit`, or 0 if the list has this parameter.
	size int
	// reader is the client that reads the list; nil for an admin.
	reader *client.Client
}

// listPosition is the position at which a list shows added rows.
type listPosition int

const (
	byName  listPosition = iota // sorted by the member growingList.by
	atFront                     // newest first
	atEnd                       // oldest first
)

// `make test` checks one in listShare lists.
const listShare = 3

// minRows is the minimum number of rows of a list before it is read.
const minRows = 4

// requireStableLists reads every list page by page, first unchanged and then while rows are added. The earlier rows
// must keep their order, and none may be skipped. If the list shows new rows last, no row may appear twice.
func (w *harness) requireStableLists(t *testing.T) {
	t.Helper()
	g, added := w.listGrower(t), 0
	lists := growingLists()
	for _, pattern := range draw.Routes(t, listShare, slices.Sorted(keys(lists)), draw.Itself, func(pattern string) []string { return []string{"GET " + pattern} }) {
		t.Run(strings.TrimPrefix(pattern, "/"), func(t *testing.T) {
			g := g.in(t)
			list := lists[pattern](g)
			add := func(n int) {
				was := 0
				if list.late {
					was = len(g.readAll(list))
				}
				for range n {
					added++
					list.add(added)
				}
				if list.late {
					g.await("the added rows are listed", func() bool { return len(g.readAll(list)) >= was+n })
				}
			}
			add(max(minRows, list.size+1))
			before, begun := g.readAll(list), added
			require.GreaterOrEqual(t, len(before), minRows)
			size := max(2, len(before)/4)
			require.Equal(t, before, g.readPages(list, size, func() {}), "the pages must equal the complete list")
			seen := g.readPages(list, size, func() { add(1) })
			require.Equal(t, before, knownOnly(seen, before), "added rows must not move or hide earlier rows")
			after := g.readAll(list)
			require.Equal(t, before, knownOnly(after, before))
			require.Greater(t, added, begun, "rows must be added while the list is read")
			require.Len(t, after, len(before)+added-begun)
			switch list.position {
			case atFront:
				require.Equal(t, before, after[added-begun:], "the newest row must come first")
			case atEnd:
				require.Equal(t, after, seen, "the newest row must come last")
			case byName:
				ours := slices.DeleteFunc(after, func(name string) bool { return !strings.HasPrefix(name, rowPrefix) })
				require.GreaterOrEqual(t, len(ours), minRows)
				require.IsIncreasing(t, ours, "the list must be sorted by name")
			}
		})
	}
	for pattern, list := range fixedLists() {
		t.Run(strings.TrimPrefix(pattern, "/"), func(t *testing.T) {
			g := g.in(t)
			list := list(g)
			rows := g.readAll(list)
			require.NotEmpty(t, rows)
			require.Equal(t, rows, g.readPages(list, 2, func() {}), "the pages must equal the complete list")
		})
	}
}

// readPages reads a list page by page. It calls the given function after each full page.
func (g *listGrower) readPages(l growingList, size int, between func()) []string {
	g.Helper()
	if l.size > 0 {
		size = l.size
	}
	rows := []string{}
	for offset := 0; ; offset += size {
		page := g.readPage(l, size, offset)
		rows = append(rows, page...)
		if len(page) < size {
			return rows
		}
		between()
	}
}

// readAll reads the complete list with large pages.
func (g *listGrower) readAll(l growingList) []string {
	g.Helper()
	return g.readPages(l, 500, func() {})
}

// readPage returns the identifying member of each row of a page.
func (g *listGrower) readPage(l growingList, limit, offset int) []string {
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
	var rows []map[string]any
	if err := json.Unmarshal(raw, &rows); err != nil {
		var wrapped struct {
			Items []map[string]any `json:"items"`
		}
		require.NoError(g, json.Unmarshal(raw, &wrapped))
		rows = wrapped.Items
	}
	require.LessOrEqual(g, len(rows), limit)
	out := make([]string, len(rows))
	for i, row := range rows {
		by := l.by
		if by == "" {
			by = "id"
		}
		require.NotNil(g, row[by], "a row of %s has no %s", l.path, by)
		out[i] = fmt.Sprint(row[by])
	}
	return out
}

// knownOnly returns the rows in `seen` that are also in `before`, each once.
func knownOnly(seen, before []string) []string {
	out := []string{}
	for _, s := range seen {
		if slices.Contains(before, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
