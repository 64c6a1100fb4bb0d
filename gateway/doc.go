// Package gateway is the public edge of Signalbox: one HTTP listener that checks the bearer of every
// request against the generated route table (gen/route), turns REST into gRPC calls of the services,
// gRPC answers and faults into the contract's JSON, and server streams into Server-Sent Events.
//
// It promises: a path and method that the table does not name is never answered by a service; a
// service sees a caller identity that auth signed for this request, never the bearer itself, and no
// header that is not on the list below; every failure has a JSON body; but for health nothing answers a
// request that is addressed to a name which is not the installation's (against names that are made to
// resolve to this listener); nothing is buffered on the byte routes (/api/ingest, /inference, /api/blobs), whose handlers check their own credentials.
//
// # Forms and pages
//
// The endpoints whose form the OAuth RFCs fix (package form) and the pages before and beside the console
// (package page) are the gateway's own handlers of raw routes. They stand behind what every REST request
// meets: request id, log line, trace, browser headers, time limit, drain. A log or a trace names the
// route, never a path, a query or a body: codes travel there.
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
// The client's address is in the caller identity. A request without a body reaches the service as a
// message with nothing set; a null or absent optional field is unset; protovalidate then judges.
//
// # What a service can say besides its message
//
// Response header metadata, set with grpc.SetHeader before the handler returns:
//
//	x-service-status       200, 201, 202 or 204, where it differs from the table's (below)
//	x-service-more         "true": a list has further rows; the gateway writes Link: rel="next"
//	x-service-total        a list's number of rows; becomes X-Total-Count
//	x-service-set-cookie   a whole Set-Cookie value; only the refresh cookie's names pass
//	x-service-impact, etag, location, cache-control, last-modified   become the header of that name
//
// Anything else in response metadata stays inside. The status where nothing is said: 201 for a POST
// whose RPC is named Create…, Submit… or Register…, 204 without a body for a DELETE that answers
// google.protobuf.Empty, else 200 (google.protobuf.Empty is then `{}`).
//
// The refresh cookie is named __Host-service_refresh (Secure, HttpOnly, SameSite=Strict, Path=/)
// where the public URL is https, and service_refresh (HttpOnly, SameSite=Strict, Path=/) where it is
// plain http. Only the name that fits the public URL is read.
//
// # Maintenance and draining
//
// Maintenance is a mode of the installation that auth keeps. Every check of a caller is judged by it, and auth
// refuses everybody then but on the routes that the table marks (InMaintenance): no replica of the gateway has
// to know, and where auth cannot be asked nothing is served that maintenance would refuse. Streams that are open
// end within the time of their repeated check. A person's call that passes through to a service as bytes ends in
// that time too where his login does; maintenance lets it come to its end. Draining is this instance's own: what is
// new is refused with 503, health and version answer, what is held is finished, and only then the listener closes.
//
// # Faults
//
// A service returns platform/fault values. The Loc of a field is the path inside the request message;
// the gateway puts "path", "query" or "body" in front from the HTTP rule of the route. A fault of a
// header is told as ["header", name] and stays so. Faults of shape (not JSON, unknown or doubled
// names, wrong types, unknown query keys) never reach a service.
//
// # Streams
//
// A server-streaming RPC has no google.api.http rule; proto/http_routes.yaml maps it. Each event has
// an `id:` (the message's seq), Last-Event-ID resumes after it, `event: eof` is the last one of a
// stream that ended for good, and `event: error` carries the body that a plain request would get.
package gateway
