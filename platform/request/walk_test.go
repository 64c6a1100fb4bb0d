package request_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/request"
)

// rows returns what a store reads for a page: FetchLimit rows, starting at Offset.
func rows(total int, p request.Page) []int {
	var out []int
	for n := p.Offset; n < min(total, p.Offset+p.FetchLimit()); n++ {
		out = append(out, n)
	}
	return out
}

// A client that follows the links sees every row once and in order, and reaches the end of the list.
func TestSetPageHeaders_linksVisitEveryRowOnce(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`^<([^>]*)>; rel="next"$`)
	for _, c := range []struct{ total, limit int }{{0, 5}, {1, 5}, {4, 5}, {5, 5}, {6, 5}, {50, 1}, {1234, 500}, {1000, 500}} {
		var seen []int
		target, err := url.Parse(fmt.Sprintf("http://h/api/jobs?state=a%%26b&limit=%d", c.limit))
		require.NoError(t, err)
		for requests := 0; target != nil; requests++ {
			require.LessOrEqual(t, requests, c.total/c.limit+1, "the links must end")
			p := parse(t, target)
			shown, more := request.CutPage(rows(c.total, p), p)
			seen = append(seen, shown...)
			h := http.Header{}
			request.SetPageHeaders(h, target, p, more, c.total, "")
			require.Equal(t, fmt.Sprint(c.total), h.Get(request.HeaderTotal))
			target = nil
			if text := h.Get(request.HeaderLink); text != "" {
				found := link.FindStringSubmatch(text)
				require.Len(t, found, 2, text)
				target, err = url.Parse(found[1])
				require.NoError(t, err)
				require.Equal(t, "a&b", target.Query().Get("state"), "the link keeps the other query parameters")
			}
		}
		require.Len(t, seen, c.total)
		for n, row := range seen {
			require.Equal(t, n, row)
		}
	}
}

func parse(t *testing.T, u *url.URL) request.Page {
	t.Helper()
	number := func(name string) *int32 {
		text := u.Query().Get(name)
		if text == "" {
			return nil
		}
		var n int32
		_, err := fmt.Sscan(text, &n)
		require.NoError(t, err)
		return &n
	}
	p, err := request.NewPage(number("limit"), number("offset"))
	require.NoError(t, err, "every link is within the bounds")
	return p
}

func TestPage_Next_stopsAtMaxOffset(t *testing.T) {
	t.Parallel()
	for offset, ok := range map[int]bool{request.MaxOffset - 10: true, request.MaxOffset - 9: false, request.MaxOffset: false} {
		p := request.Page{Limit: 10, Offset: offset}
		next, has := p.Next()
		require.Equal(t, ok, has, offset)
		require.True(t, !ok || next.Check() == nil)
	}
}

// The Link header contains the URL of the request. Whatever the URL is, the header must be one line with a single
// link.
func TestSetPageHeaders_escapesRequestURL(t *testing.T) {
	t.Parallel()
	for _, target := range []*url.URL{
		{Path: "/api/jobs", RawQuery: "q=%3E%3B+rel%3D%22evil%22%2C+%3Chttp%3A%2F%2Fevil"},
		{Path: `/api/a>; rel="evil", <b`},
		{Path: "/api/a\r\nSet-Cookie: x=1"},
		{Path: "/api/jobs", RawQuery: "q=a\r\nb&q=<>\"&%zz=1;2"},
		{Path: "/api/jobs", RawPath: "/api/jobs>x", RawQuery: "limit=1&limit=2&offset=7"},
		{Scheme: "http", Host: "evil.example", User: url.User("x"), Path: "/api/jobs", Fragment: "top"},
	} {
		h := http.Header{}
		request.SetPageHeaders(h, target, request.Page{Limit: 5}, true, -1, "")
		text := h.Get(request.HeaderLink)
		require.Regexp(t, `^</[^<>"\s]*>; rel="next"$`, text)
		require.NotContains(t, text, "evil.example")
		require.Equal(t, 1, len(regexp.MustCompile(`limit=`).FindAllString(text, -1)), text)
		require.Contains(t, text, "offset=5")
	}
}
