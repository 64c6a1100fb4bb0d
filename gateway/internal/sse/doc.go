// Package sse serves a server-streaming RPC as Server-Sent Events.
//
// The stream's response message either has a oneof `event`, whose set member names the event and
// carries `seq`, or it has `seq` and one message field, which names the event. A stream of the
// first form ends for good with its member `eof`; one of the second form ends for good when the RPC
// does. Only then the last event is `event: eof`. Its id is the stream's last, even if the client had
// already seen all events. A stream that was cut otherwise just closes, and the client reconnects with
// Last-Event-ID. A failure is `event: error` with the body that a plain request would have got.
//
// It promises:
//
//   - A failure before the first event is a plain HTTP error.
//   - At most Backlog messages wait for a slow client; beyond that flow control stops the service's stream.
//   - A write that takes longer than WriteTimeout ends the stream.
//   - The caller is checked again every Recheck. If the caller's access has changed, the stream just closes, so
//     that the service decides again when the client reconnects.
//   - When Run returns, no goroutine of the stream is left.
package sse
