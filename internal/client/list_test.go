package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// pages serves the numbers from 0 to count-1 as a list with the pages of the API. It records the queries.
func pages(count int, total bool, queries *[]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*queries = append(*queries, r.URL.RawQuery)
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		end := min(offset+limit, count)
		if end < count {
			w.Header().Set("Link", fmt.Sprintf(`<%s?q=a,b&limit=%d&offset=%d>; rel="next"`, r.URL.Path, limit, end))
		}
		if total {
			w.Header().Set("X-Total-Count", strconv.Itoa(count))
		}
		rows := []int{}
		for n := offset; n < end; n++ {
			rows = append(rows, n)
		}
		_ = json.NewEncoder(w).Encode(rows)
	}
}

func TestClient_List_pages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		count, most, rows, requests int
		more                        bool
	}{
		{0, 10, 0, 1, false},
		{3, 10, 3, 1, false},
		{3, 3, 3, 1, false},
		{4, 3, 3, 1, true},
		{500, 500, 500, 1, false},
		{1201, 1000, 1000, 2, true},
		{1201, 9999, 1201, 3, false},
		{3, 0, 0, 1, true},
		{0, 0, 0, 1, false},
		{3, -1, 0, 1, true},
	} {
		for _, total := range []bool{true, false} {
			var queries []string
			list, err := serving(t, pages(tc.count, total, &queries)).List(t.Context(), "/api/x", url.Values{"q": {"a,b"}}, tc.most)
			require.NoError(t, err)
			require.Len(t, list.Rows, tc.rows, "%v", tc)
			require.Len(t, queries, tc.requests, "%v", tc)
			require.Equal(t, tc.more, list.More, "%v", tc)
			want := -1
			if total {
				want = tc.count
			}
			require.Equal(t, want, list.Total, "%v", tc)
			for n, row := range list.Rows {
				require.Equal(t, strconv.Itoa(n), string(row))
			}
		}
	}
}

func TestClient_List_keepsQuery(t *testing.T) {
	t.Parallel()
	query := url.Values{"limit": {"7"}, "state": {"a", "b"}}
	var queries []string
	_, err := serving(t, pages(1, true, &queries)).List(t.Context(), "/api/x", query, 9)
	require.NoError(t, err)
	require.Equal(t, []string{"limit=9&state=a&state=b"}, queries)
	require.Equal(t, url.Values{"limit": {"7"}, "state": {"a", "b"}}, query)
}

// The server does not page beyond an offset of 100,000.
func TestClient_List_endsBeforeTotal(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Total-Count", "9")
		_, _ = w.Write([]byte(`[1,2]`))
	})
	list, err := c.List(t.Context(), "/api/x", nil, 100)
	require.NoError(t, err)
	require.True(t, list.More)
}

func TestClient_Each_handlerError(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	var queries []string
	total, more, err := serving(t, pages(1000, true, &queries)).Each(t.Context(), "/api/x", nil, 1000, func(json.RawMessage) error { return stop })
	require.ErrorIs(t, err, stop)
	require.Equal(t, 1000, total)
	require.True(t, more)
	require.Len(t, queries, 1)
}

func TestClient_List_refusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		link, body, want string
		status           int
	}{
		"no list":           {"", `{"a":1}`, "decode the list /api/x:", 200},
		"forbidden":         {"", `{"detail":"no"}`, "403: no", 403},
		"page without end":  {`</api/x?limit=5&q=hunter2>; rel="next"`, `[1]`, "the list /api/x does not end", 200},
		"empty page":        {`</api/x?offset=9>; rel="next"`, `[]`, "the list /api/x does not end", 200},
		"invalid link":      {"<http://h\t/>; rel=next", `[1]`, "invalid link", 200},
		"another kind":      {"<evil:.example.com/>; rel=next", `[1]`, "invalid link", 200},
		"link in the query": {`</api/x?offset=1>; rel="next"`, `[`, "decode the list", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Link"] = []string{tc.link}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			})
			_, err := c.List(t.Context(), "/api/x", url.Values{"q": {"hunter2"}}, 5)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestNextPage(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		`</api/x?a=1>; rel="next"`:                                 "/api/x?a=1",
		`</a?q=1,2;3>; rel="prev", </b?q=1,2;3>; rel="next"`:       "/b?q=1,2;3",
		`<?offset=2>; title="x"; rel=next`:                         "/api/x?offset=2",
		`<https://elsewhere.example/api/x?offset=2>; rel="next"`:   "/api/x?offset=2",
		`</api/x?offset=2>; rel="prev"`:                            "",
		`</api/x?rel=next>`:                                        "",
		`</api/x`:                                                  "",
		strings.Repeat(`</y>; rel="prev", `, 3) + `</z>; rel=next`: "/z",
	} {
		got, err := nextPage("/api/x?offset=1", http.Header{"Link": {link}}, 1)
		require.NoError(t, err, link)
		require.Equal(t, want, got, link)
	}
}

// The credential never follows an absolute link.
func TestClient_List_absoluteLink(t *testing.T) {
	t.Parallel()
	var paths []string
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.RequestURI)
		if len(paths) == 1 {
			w.Header().Set("Link", `<http://elsewhere.example/api/x?offset=1>; rel="next"`)
		}
		_, _ = w.Write([]byte(`[1]`))
	})
	_, err := c.With(secret.New("tok")).List(t.Context(), "/api/x", nil, 9)
	require.NoError(t, err)
	require.Equal(t, []string{"/api/x?limit=9", "/api/x?offset=1"}, paths)
}
