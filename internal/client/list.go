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
	// Even for no rows, a page shows whether there are any.
	first.Set("limit", strconv.Itoa(max(min(most, maxPage), 1)))
	seen, total := 0, -1
	for next := path + "?" + first.Encode(); next != ""; {
		rows, header, err := c.page(ctx, next)
		if err != nil {
			return total, false, err
		}
		if n, err := strconv.Atoi(header.Get("X-Total-Count")); err == nil {
			total = n
		}
		if next, err = nextPage(next, header, len(rows)); err != nil {
			return total, false, err
		}
		for i, row := range rows {
			if seen >= most {
				return total, true, nil
			}
			seen++
			if err := handle(row); err != nil {
				return total, i < len(rows)-1 || next != "", err
			}
		}
		if seen >= most && next != "" {
			return total, true, nil
		}
	}
	// A list ends before its last row if the server does not page further.
	return total, total > seen, nil
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
		return nil, nil, fmt.Errorf("decode the list %s: %w", PlainPath(path), err)
	}
	return rows, resp.Header, nil
}

// nextPage returns the path and the query of the page that the header Link names with rel="next", or "". The credential
// is for this installation, so only they are used of an absolute address. A page that leads to itself, or that is empty
// but has a next one, is an error, because a list must end.
func nextPage(current string, header http.Header, rows int) (string, error) {
	target := nextLink(header.Values("Link"))
	if target == "" {
		return "", nil
	}
	from, err := url.Parse(current)
	if err != nil {
		return "", fmt.Errorf("read the address of the list %s: %w", PlainPath(current), withoutAddress(err))
	}
	to, err := from.Parse(target)
	if err != nil || to.Opaque != "" {
		return "", fmt.Errorf("the list %s has an invalid link to its next page", PlainPath(current))
	}
	next := to.RequestURI()
	if next == current || rows == 0 {
		return "", fmt.Errorf("the list %s does not end: a page of %d rows leads to the next one", PlainPath(current), rows)
	}
	return next, nil
}

// nextLink returns the target of the link with rel="next" (RFC 8288), or "".
func nextLink(values []string) string {
	for _, value := range values {
		for {
			_, rest, ok := strings.Cut(value, "<")
			target, rest, closed := strings.Cut(rest, ">")
			if !ok || !closed {
				break
			}
			params, _, _ := strings.Cut(rest, "<")
			for param := range strings.FieldsFuncSeq(params, func(r rune) bool { return r == ';' || r == ',' }) {
				name, relation, _ := strings.Cut(strings.TrimSpace(param), "=")
				if strings.EqualFold(name, "rel") && strings.Trim(relation, `"`) == "next" {
					return target
				}
			}
			value = rest
		}
	}
	return ""
}
