// Package sse serves a server-streaming RPC as Server-Sent Events.
//
// The stream's response message has one of two forms. Either it has a oneof `event`, whose set member names the event,
// and the message or each member contains `seq`. Or it has `seq` and one message field, which names the event. A stream
// of the first form is complete after its member `eof`, and endless if it has no such member. A stream of the second
// form is complete when the RPC ends without an error. Only a
// complete stream ends with `event: eof`, whose id is the stream's last, even if the client had already received all
// events. If the RPC fails or auth refuses the caller, the last event is `event: error` with the body that a plain
// request would have got. In all other cases, for example when a service is unavailable, the connection just closes,
// and the client reconnects with Last-Event-ID.
//
// It promises:
//
//   - If the RPC fails before the first event, the client gets a plain HTTP error.
//   - If a client is slow, at most Backlog messages wait in addition to those being written; then flow control stops
//     the service's stream.
//   - A write that takes longer than WriteTimeout ends the stream.
//   - The caller is checked again at intervals of Recheck. If the caller's access has changed, the stream just closes,
//     so that the service decides again when the client reconnects.
//   - When Run returns, all goroutines of the stream have ended.
package sse
