package request

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Bounds of limit and offset.
const (
	DefaultLimit = 50
	MaxLimit     = 500
	MaxOffset    = 100_000
)

// Response headers of lists.
const (
	HeaderTotal = "X-Total-Count"
	HeaderLink  = "Link"
)

// Page selects a part of a list.
type Page struct{ Limit, Offset int }

// PageRangeError reports a parameter that is out of range.
type PageRangeError struct {
	Param            string
	Value, Low, High int
}

// Error implements error.
func (e *PageRangeError) Error() string {
	return fmt.Sprintf("%s must be from %d to %d, got %d", e.Param, e.Low, e.High, e.Value)
}

// NewPage returns the Page for the given parameters and the result of its Check. A parameter that is nil was not sent
// and has its default value.
func NewPage(limit, offset *int32) (Page, error) {
	p := Page{Limit: DefaultLimit}
	if limit != nil {
		p.Limit = int(*limit)
	}
	if offset != nil {
		p.Offset = int(*offset)
	}
	return p, p.Check()
}

// Check returns a *PageRangeError if limit or offset is out of range.
func (p Page) Check() error {
	if p.Limit < 1 || p.Limit > MaxLimit {
		return &PageRangeError{Param: "limit", Value: p.Limit, Low: 1, High: MaxLimit}
	}
	if p.Offset < 0 || p.Offset > MaxOffset {
		return &PageRangeError{Param: "offset", Value: p.Offset, Low: 0, High: MaxOffset}
	}
	return nil
}

// FetchLimit returns the number of rows to read. It is one more than Limit, so that CutPage can detect a next page
// without counting the rows.
func (p Page) FetchLimit() int { return p.Limit + 1 }

// Next returns the page after p; the result ok is false if it would start past MaxOffset.
func (p Page) Next() (next Page, ok bool) {
	next = Page{Limit: p.Limit, Offset: p.Offset + p.Limit}
	return next, next.Offset <= MaxOffset
}

// CutPage drops the extra row that FetchLimit requested and reports whether there was one.
func CutPage[T any](rows []T, p Page) (shown []T, more bool) {
	if len(rows) <= p.Limit {
		return rows, false
	}
	return rows[:p.Limit:p.Limit], true
}

// SetPageHeaders sets the Link header if there is a next page, and the header with the total number of rows unless the
// total is negative. The parameter target is the URL of the request; the link contains only its path and query. If after is
// not empty, the next page begins after that position, and otherwise at an offset.
func SetPageHeaders(h http.Header, target *url.URL, p Page, more bool, total int, after string) {
	if total >= 0 {
		h.Set(HeaderTotal, strconv.Itoa(total))
	}
	next, ok := p.Next()
	if !more || !ok && after == "" {
		return
	}
	query := target.Query()
	query.Set("limit", strconv.Itoa(next.Limit))
	if after != "" {
		query.Del("offset")
		query.Set(afterField, after)
	} else {
		query.Set("offset", strconv.Itoa(next.Offset))
	}
	link := url.URL{Path: target.Path, RawPath: target.RawPath, RawQuery: query.Encode()}
	h.Set(HeaderLink, "<"+link.String()+`>; rel="next"`)
}
