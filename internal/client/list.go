package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxPage is the maximum number of rows of a page.
const maxPage = 500

// List is a part of a list: its first rows.
type List struct {
	Rows []json.RawMessage
	// Total is the number of rows of the whole list, or -1 if the route does not report it.
	Total int
	// More states that further rows follow.
	More bool
}

// List reads the first rows of a list, at most the given number, page by page.
func (c *Client) List(ctx context.Context, path string, query url.Values, most int) (List, error) {
	out := List{Rows: []json.RawMessage{}}
	total, more, err := c.Each(ctx, path, query, most, func(row json.RawMessage) error {
		out.Rows = append(out.Rows, row)
		return nil
	})
	out.Total, out.More = total, more
	return out, err
}

// Each calls handle with each of the first rows of a list, at most the given number, in the order of the list. It
// returns the number of rows of the whole list, or -1 if the route does not report it, and whether further rows follow.
func (c *Client) Each(ctx context.Context, path string, query url.Values, most int, handle func(json.RawMessage) error) (total int, more bool, err error) {
	first := url.Values{}
	maps.Copy(first, query)
	first.Set("limit", strconv.Itoa(min(most, maxPage)))
	next := path + "?" + first.Encode()
	for total = -1; next != ""; {
		rows, header, err := c.page(ctx, next)
		if err != nil {
			return total, false, err
		}
		if n, err := strconv.Atoi(header.Get("X-Total-Count")); err == nil {
			total = n
		}
		next = nextPage(header)
		for i, row := range rows {
			if most == 0 {
				return total, true, nil
			}
			most--
			if err := handle(row); err != nil {
				return total, i < len(rows)-1 || next != "", err
			}
		}
		if most == 0 {
			return total, next != "", nil
		}
	}
	return total, false, nil
}

func (c *Client) page(ctx context.Context, path string) (rows []json.RawMessage, header http.Header, err error) {
	resp, err := c.Call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, nil, err
	}
	if resp.Status != http.StatusOK {
		return nil, nil, resp.Err()
	}
	if err := json.Unmarshal(resp.Body, &rows); err != nil {
		return nil, nil, fmt.Errorf("decode the list %s: %w", path, err)
	}
	return rows, resp.Header, nil
}

// nextPage returns the path and the query of the page that the header Link names with rel="next", or "". The credential
// is for this installation, so only they are used of an absolute address.
func nextPage(header http.Header) string {
	for _, value := range header.Values("Link") {
		for link := range strings.SplitSeq(value, ",") {
			target, params, _ := strings.Cut(link, ";")
			if !strings.Contains(params, `rel="next"`) {
				continue
			}
			u, err := url.Parse(strings.Trim(target, " <>"))
			if err != nil {
				return ""
			}
			return u.RequestURI()
		}
	}
	return ""
}
