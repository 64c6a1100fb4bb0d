// Package page holds the one shape of every list: how many rows, from where, and
// the headers that say how to go on. Lists themselves are bare arrays.
package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// The bounds of every list.
const (
	DefaultLimit = 50
	MaxLimit     = 500
	MaxOffset    = 100_000
)

// Headers that a list may add.
const (
	HeaderTotal = "X-Total-Count"
	HeaderLink  = "Link"
)

// Page is a part of a list.
type Page struct{ Limit, Offset int }

// RangeError says which parameter lies outside its bounds.
type RangeError struct {
	Param            string
	Value, Low, High int
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s must be from %d to %d, got %d", e.Param, e.Low, e.High, e.Value)
}

// New makes a page from what the caller sent; nil means not sent.
func New(limit, offset *int32) (Page, error) {
	p := Page{Limit: DefaultLimit}
	if limit != nil {
		p.Limit = int(*limit)
	}
	if offset != nil {
		p.Offset = int(*offset)
	}
	return p, p.Check()
}

// Check answers a *RangeError for a page outside the bounds.
func (p Page) Check() error {
	if p.Limit < 1 || p.Limit > MaxLimit {
		return &RangeError{Param: "limit", Value: p.Limit, Low: 1, High: MaxLimit}
	}
	if p.Offset < 0 || p.Offset > MaxOffset {
		return &RangeError{Param: "offset", Value: p.Offset, Low: 0, High: MaxOffset}
	}
	return nil
}

// Ask is the number of rows to read: one more than shown, so that Cut can tell
// whether there is a next page without counting.
func (p Page) Ask() int { return p.Limit + 1 }

// Next is the page after p; ok is false where it would start past MaxOffset.
func (p Page) Next() (next Page, ok bool) {
	next = Page{Limit: p.Limit, Offset: p.Offset + p.Limit}
	return next, next.Offset <= MaxOffset
}

// Cut drops the extra row that Ask asked for.
func Cut[T any](rows []T, p Page) (shown []T, more bool) {
	if len(rows) <= p.Limit {
		return rows, false
	}
	return rows[:p.Limit:p.Limit], true
}

// SetHeaders says on a list's answer where the next page is and, where total is
// not negative, how many rows there are. target is the request's own URL; only
// its path and query are shown.
func SetHeaders(h http.Header, target *url.URL, p Page, more bool, total int) {
	if total >= 0 {
		h.Set(HeaderTotal, strconv.Itoa(total))
	}
	next, ok := p.Next()
	if !more || !ok {
		return
	}
	query := target.Query()
	query.Set("limit", strconv.Itoa(next.Limit))
	query.Set("offset", strconv.Itoa(next.Offset))
	link := url.URL{Path: target.Path, RawPath: target.RawPath, RawQuery: query.Encode()}
	h.Set(HeaderLink, "<"+link.String()+`>; rel="next"`)
}
