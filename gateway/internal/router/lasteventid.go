package router

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// HeaderResume is the header in which a client of a stream sends the id of the last event that it received.
const HeaderResume = "Last-Event-ID"

// resume sets the query parameter `after` of a stream to the id in Last-Event-ID, if the request has that header.
func resume(query url.Values, header http.Header) *fault.Error {
	last := header.Get(HeaderResume)
	if last == "" {
		return nil
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 0 {
		return fault.InvalidFields(fault.At(fault.TypeIntParsing, "Input should be a valid integer", "header", "last-event-id"))
	}
	// The service does not see the parameter that the header replaces, so it cannot refuse it.
	if after, err := strconv.ParseInt(query.Get("after"), 10, 64); err == nil && after < 0 {
		return fault.InvalidFields(fault.At(fault.TypeGreaterThanEqual, "Input should be greater than or equal to 0", "query", "after"))
	}
	query.Set("after", strconv.FormatInt(n, 10)) // without leading zeros, because a number with them would be read as octal
	return nil
}
