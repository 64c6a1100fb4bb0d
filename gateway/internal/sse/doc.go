// Package sse shows a server-streaming RPC as Server-Sent Events.
//
// The stream's response message either has a oneof `event`, whose set member names the event and
// carries `seq`, or it is `seq` beside one message field, which names the event. A stream of the
// first form ends for good with its member `eof`; one of the second form ends for good when the RPC
// does. Only then the last event is `event: eof`, whose id is the last that the stream has, also where
// the client had seen them all; a stream that was cut otherwise just closes, and
// the client comes back with Last-Event-ID. A failure is `event: error` with the body that a plain
// request would have got.
//
// It promises: what fails before the first event is a plain HTTP error; at most Backlog messages wait
// for a slow client, beyond that the service's stream waits by flow control; a write that takes longer
// than WriteTimeout ends the stream; the caller is checked again every Recheck, and where what he may reach
// has changed the stream just closes, so that the service decides anew about who comes back; when Run's
// context ends no goroutine of the stream is left.
package sse
