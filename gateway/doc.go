// Package gateway is the public entry point of Signalbox: one HTTP listener that checks the bearer token of every
// request as the generated route table (gen/route) requires, turns REST requests into gRPC calls to the
// services, turns gRPC responses and faults into the contract's JSON, and turns server streams into
// Server-Sent Events.
//
// It promises:
//
//   - A request whose path and method are not in the table never reaches a service. Browsers get the console's page
//     for such a path, unless it is reserved for the API.
//   - Except on the byte routes (last item), a service receives a caller identity that auth signed, never the bearer
//     token itself, and only the headers listed below.
//   - Every failed REST request gets a JSON body, except that a browser gets an HTML page from the page routes.
//   - Every HTTP request except health probes and gRPC calls must name a host that is allowed: an address, a name
//     without a dot, localhost, or a name of the installation. This prevents DNS rebinding, in which another site's
//     host name is made to resolve to this listener.
//   - On the byte routes (/api/ingest, /inference, /api/blobs) the gateway forwards bodies without parsing them.
//     The handlers of these routes check their own credentials.
//
// # Packages
//
// In the order of a request: router finds the route. middleware checks host, origin and limits, selects headers, and
// writes errors and the log line. bearer turns the credential into a caller identity. The next step depends on the
// route: restjson reads bodies and writes responses of RPCs, with scalar for single values; sse serves event streams;
// reverseproxy forwards bytes; oauthform, webpage and apidoc serve the gateway's own routes. grpcproxy serves gRPC
// clients instead, also with bearer and with the header selection of middleware.
//
// # Forms and pages
//
// The OAuth endpoints (package oauthform) and the pages outside the console (package webpage) are the gateway's own
// handlers of raw routes. Their requests are treated like every REST request: request id, log line, trace, browser
// headers, time limit, drain. Logs and traces contain the route's pattern, never the path, query or body, because
// these may contain secret codes.
//
// # What a service can rely on
//
// Metadata of every call that comes from a REST request, event streams included:
//
//	x-service-caller       the signed caller identity (platform/authn); of kind "none" if the route needs no credential
//	x-request-id           the request id
//	idempotency-key        the Idempotency-Key header, at most 255 printable ASCII characters
//	x-service-confirm      the X-Service-Confirm header
//	if-match, if-none-match
//	x-service-user-agent   the client's User-Agent, cut to 256 bytes
//	x-service-refresh      the refresh cookie's value; only on AuthService.Refresh
//
// The client's address is in the caller identity. A request without a body is read like one with an empty object; a
// null or absent optional field is unset. protovalidate then checks the message.
//
// # What a service can return in addition to its message
//
// Response header metadata, set with grpc.SetHeader before the handler returns:
//
//	x-service-status       200, 201, 202 or 204, to override the default status (below)
//	x-service-more         "true" if a list has more rows; the gateway then writes Link: rel="next"
//	x-service-after        the position after which the next page begins, escaped as in a path; without it, the link
//	                       has an offset
//	x-service-total        a list's number of rows; becomes X-Total-Count
//	x-service-set-cookie   a complete Set-Cookie value; only auth's refresh cookie is forwarded
//	x-service-impact, etag, location, cache-control, last-modified   become the header of the same name
//
// All other response metadata is dropped. The default status is 201 for a POST whose RPC is named
// Create…, Submit… or Register…, 204 without a body for a DELETE that returns google.protobuf.Empty, and
// 200 otherwise (google.protobuf.Empty is then `{}`).
//
// The refresh cookie is named __Host-service_refresh (Secure, HttpOnly, SameSite=Strict, Path=/) if the
// public URL is https, and service_refresh (HttpOnly, SameSite=Strict, Path=/) if it is plain http. Only
// the name for the scheme of the public URL is read.
//
// # Maintenance and draining
//
// Maintenance is a mode of the installation that auth stores. During maintenance, auth refuses every caller except on
// the routes marked InMaintenance in the table. So no replica of the gateway has to know the mode. The gateway caches
// auth's responses while it holds a lease of 5 s, which auth renews, and drops them when auth announces a change. A
// call that begins maintenance, or ends or changes a user's access, returns only after each gateway has dropped its
// cache or its lease has expired. Without a lease, the gateway calls auth for each request with a credential, and
// reuses auth's response for callers without a credential for at most authn.AnonymousLife. While auth is unreachable
// and the lease has expired, the gateway serves no route that maintenance would close. When maintenance begins, open
// streams end at the next periodic check of their callers. A user's request that is forwarded to a service as bytes
// also ends at such a check if the user's access has changed, but it may finish during maintenance.
//
// Draining concerns one instance: new requests get 503, health and version still respond, event streams and long
// polls end, other running requests finish, and then the listener closes.
//
// # Faults
//
// A service returns platform/fault values. The Loc of a field is the path inside the request message;
// the gateway prefixes it with "path", "query" or "body", as given by the HTTP rule of the route. A service reports
// the fault of a header as ["header", name], which stays unchanged. Malformed input of a REST request (not JSON,
// unknown or repeated names, wrong types, unknown query keys) never reaches a service.
//
// # Streams
//
// A server-streaming RPC has no google.api.http rule; proto/http_extra_routes.yaml maps it. Each event has
// an `id:` (the message's seq), and Last-Event-ID resumes after that id. `event: eof` is the last event of a
// stream that is complete. Only `event: error` has no id; it contains the error body that a plain request would get.
package gateway
