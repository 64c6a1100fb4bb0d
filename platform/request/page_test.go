package request_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/request"
)

func TestNewPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, offset *int32
		want          request.Page
		fault         string
	}{
		"defaults": {nil, nil, request.Page{Limit: 50}, ""},
		"sent":     {new(int32(7)), new(int32(9)), request.Page{Limit: 7, Offset: 9}, ""},
		"lowest":   {new(int32(1)), new(int32(0)), request.Page{Limit: 1}, ""},
		"highest":  {new(int32(500)), new(int32(100_000)), request.Page{Limit: 500, Offset: 100_000}, ""},
		"zero":     {new(int32(0)), nil, request.Page{}, "limit must be from 1 to 500, got 0"},
		"too many": {new(int32(501)), nil, request.Page{Limit: 501}, "limit must be from 1 to 500, got 501"},
		"negative": {nil, new(int32(-1)), request.Page{Limit: 50, Offset: -1}, "offset must be from 0 to 100000, got -1"},
		"too far":  {nil, new(int32(100_001)), request.Page{Limit: 50, Offset: 100_001}, "offset must be from 0 to 100000, got 100001"},
	} {
		got, err := request.NewPage(c.limit, c.offset)
		require.Equal(t, c.want, got, name)
		if c.fault == "" {
			require.NoError(t, err, name)
			continue
		}
		var out *request.PageRangeError
		require.ErrorAs(t, err, &out, name)
		require.EqualError(t, err, c.fault, name)
	}
}

func TestCutPage(t *testing.T) {
	t.Parallel()
	p := request.Page{Limit: 2}
	require.Equal(t, 3, p.FetchLimit())
	shown, more := request.CutPage([]int{1, 2, 3}, p)
	require.Equal(t, []int{1, 2}, shown)
	require.True(t, more)
	require.Equal(t, 2, cap(shown), "append must not overwrite the extra row")
	shown, more = request.CutPage([]int{1, 2}, p)
	require.Equal(t, []int{1, 2}, shown)
	require.False(t, more)
}

func TestSetPageHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		target      string
		page        request.Page
		more        bool
		total       int
		link, count string
	}{
		"next": {
			"http://h/api/jobs?state=a%26b&offset=10&limit=5",
			request.Page{Limit: 5, Offset: 10},
			true, 99,
			`</api/jobs?limit=5&offset=15&state=a%26b>; rel="next"`, "99",
		},
		"escaped path":             {"http://h/api/a%2Fb", request.Page{Limit: 50}, true, -1, `</api/a%2Fb?limit=50&offset=50>; rel="next"`, ""},
		"last page":                {"/api/jobs", request.Page{Limit: 5}, false, 0, "", "0"},
		"next page past MaxOffset": {"/api/jobs", request.Page{Limit: 500, Offset: 99_999}, true, -1, "", ""},
		"next page at MaxOffset":   {"/api/jobs", request.Page{Limit: 500, Offset: 99_500}, true, -1, `</api/jobs?limit=500&offset=100000>; rel="next"`, ""},
	} {
		target, err := url.Parse(c.target)
		require.NoError(t, err)
		h := http.Header{}
		request.SetPageHeaders(h, target, c.page, c.more, c.total, "")
		require.Equal(t, c.link, h.Get("Link"), name)
		require.Equal(t, c.count, h.Get("X-Total-Count"), name)
	}
}
