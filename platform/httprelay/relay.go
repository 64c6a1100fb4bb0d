package httprelay

import "time"

// Result is what a Relay did with a request.
type Result int

// The results of a Relay.
const (
	// Declined means that package net/http must serve the request. Nothing was read from the connection or written to it.
	Declined Result = iota
	// Served means that the request was served, and that the connection can carry another one.
	Served
	// Ended means that the connection must be closed.
	Ended
)

// Relay serves requests with a plain head in place of a handler of package net/http.
type Relay interface {
	// Relay serves a request, or declines to. It must not use c after it has returned. If it returns Served, it has read
	// the body.
	Relay(c Conn, r *Request) Result
}

// Conn is the connection on which a request arrived.
type Conn interface {
	// ReadBody fills p with the next bytes of the body, which must have that many left, before the given time.
	ReadBody(p []byte, until time.Time) error
	// WriteUntil writes bytes of the response before the given time.
	WriteUntil(p []byte, until time.Time) error
	// Watch calls gone once, from another goroutine, when the client has disconnected. It does so only if the function
	// Unwatch is not called within the first milliseconds. The body must have been read. The function gone must not block.
	Watch(gone func())
	// Unwatch ends what Watch began. When it has returned, gone is not called any more. It must be called before Relay
	// returns, unless Watch was not called.
	Unwatch()
	// Interrupt makes all reads and writes fail, the blocked ones too. It may be called at any time from any goroutine.
	Interrupt()
	// Farewell writes bytes even after Interrupt, before the given time.
	Farewell(p []byte, until time.Time)
}
