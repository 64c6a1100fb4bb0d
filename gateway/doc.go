// Package gateway is the public edge of Signalbox: one HTTP listener that checks the bearer of every
// request against the generated route table (gen/route), turns REST requests into gRPC calls of the
// services, turns gRPC responses and faults into the contract's JSON, and turns server streams into
// Server-Sent Events.
//
// It promises:
//
//   - A path and method that the table does not name never reaches a service.
//   - A service receives a caller identity that auth signed for this request, never the bearer itself,
//     and no header that is not on the list below.
//   - Every failure has a JSON body.
//   - Every request except a health probe must be addressed to one of the installation's names. This
//     stops DNS rebinding: a foreign name that is made to resolve to this listener.
//   - Nothing is buffered on the byte routes (/api/ingest, /inference, /api/blobs); their handlers check
//     their own credentials.
//
// # Forms and pages
//
// The endpoints whose form the OAuth RFCs fix (package form) and the pages before and beside the console
// (package page) are the gateway's own handlers of raw routes. They get the same treatment as every REST
// request: request id, log line, trace, browser headers, time limit, drain. A log or a trace names the
// route, never a path, a query or a body, because these carry codes.
//
// # What a service can rely on
//
// Metadata of every call that comes from a REST request:
//
//	x-service-caller       the signed caller identity (platform/authn); kind "none" on open routes
//	x-request-id           as platform/rpc forwards it
//	idempotency-key        the Idempotency-Key header, at most 255 printable ASCII characters
//	x-service-confirm      the X-Service-Confirm header
//	if-match, if-none-match
//	x-service-user-agent   the client's User-Agent, cut to 256 characters
//	x-service-refresh      the refresh cookie's value; only on AuthService.Refresh
//
// The client's address is in the caller identity. A request without a body reaches the service as an
// empty message; a null or absent optional field is unset. protovalidate then checks the message.
//
// # What a service can return besides its message
//
// Response header metadata, set with grpc.SetHeader before the handler returns:
//
//	x-service-status       200, 201, 202 or 204, to override the default status (below)
//	x-service-more         "true": a list has further rows; the gateway writes Link: rel="next"
//	x-service-total        a list's number of rows; becomes X-Total-Count
//	x-service-set-cookie   a whole Set-Cookie value; only the refresh cookie's names pass
//	x-service-impact, etag, location, cache-control, last-modified   become the header of that name
//
// All other response metadata is dropped. The default status is 201 for a POST whose RPC is named
// Create…, Submit… or Register…, 204 without a body for a DELETE that returns google.protobuf.Empty, and
// 200 otherwise (google.protobuf.Empty is then `{}`).
//
// The refresh cookie is named __Host-service_refresh (Secure, HttpOnly, SameSite=Strict, Path=/) if the
// public URL is https, and service_refresh (HttpOnly, SameSite=Strict, Path=/) if it is plain http. Only
// the name that fits the public URL is read.
//
// # Maintenance and draining
//
// Maintenance is a mode of the installation that auth keeps. auth applies it to every check of a caller
// and then refuses all callers except on the routes that the table marks (InMaintenance). So no replica of
// the gateway has to know the mode, and while auth is unreachable the gateway serves no route that
// maintenance would refuse. For callers without a credential it uses auth's response for at most
// authn.AnonymousLife, and auth acknowledges maintenance only after that time. Open streams end at their next repeated check. A user's call that passes through
// to a service as bytes also ends at that check if the login has ended; maintenance lets it finish.
//
// Draining concerns one instance: new requests get 503, health and version still respond, running requests
// finish, and only then the listener closes.
//
// # Faults
//
// A service returns platform/fault values. The Loc of a field is the path inside the request message;
// the gateway puts "path", "query" or "body" in front from the HTTP rule of the route. A service reports
// the fault of a header as ["header", name], which stays unchanged. Faults of shape (not JSON, unknown or
// repeated names, wrong types, unknown query keys) never reach a service.
//
// # Streams
//
// A server-streaming RPC has no google.api.http rule; proto/http_routes.yaml maps it. Each event has
// an `id:` (the message's seq), Last-Event-ID resumes after it, `event: eof` is the last one of a
// stream that ended for good, and `event: error` carries the body that a plain request would get.
package gateway
