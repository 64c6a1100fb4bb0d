package main

import (
	"net/http"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/tools/internal/surface"
)

// success returns the response of a route for a success status.
func (g *generator) success(r *surface.Route, status int) (*object, error) {
	headers := requestID()
	response := obj("description", http.StatusText(status), "headers", headers)
	if r.Kind == surface.Stream {
		return g.stream(r, response)
	}
	if status == http.StatusNoContent {
		return response, nil
	}
	md := r.Descriptor.Output()
	schema := g.object(md, got)
	if r.ResponseBody != "" {
		fd := md.Fields().ByName(protoreflect.Name(r.ResponseBody))
		rule, err := g.rules(fd)
		if err != nil {
			return nil, err
		}
		if schema, err = g.field(fd, rule, got); err != nil {
			return nil, err
		}
		if fd.IsList() && r.Descriptor.Input().Fields().ByName("limit") != nil {
			headers.set("Link", ref("headers", "Link"))
			headers.set("X-Total-Count", ref("headers", "X-Total-Count"))
		}
	}
	response.set("content", obj("application/json", obj("schema", schema)))
	return response, nil
}

// stream describes a Server-Sent Events response. OpenAPI 3.1 has no schema for single events, so x-service-events
// lists them.
func (g *generator) stream(r *surface.Route, response *object) (*object, error) {
	events := obj()
	for _, fd := range payloads(r.Descriptor.Output()) {
		events.set(string(fd.Name()), g.object(fd.Message(), got))
	}
	endless := r.Descriptor.Output().Oneofs().ByName("event") != nil && events.get("eof") == nil
	if events.get("eof") == nil && !endless {
		events.set("eof", obj("type", "object", "properties", obj("seq", obj("type", "integer")), "required", []any{"seq"}))
	}
	events.set("error", ref("schemas", "Error"))
	end := "`eof` is the last event."
	if endless {
		end = "The stream does not end by itself."
	}
	response.set("description", "Server-Sent Events. Each event has an `id`, an `event` and one JSON document as its `data`. "+
		"x-service-events has the schema of the document under the event's name. A comment is sent every 15 seconds. "+end)
	response.set("content", obj("text/event-stream", obj("x-service-events", events)))
	return response, nil
}

// payloads returns the fields whose messages become events, as in the gateway's sse package.
func payloads(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	var out []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		if fd := md.Fields().Get(i); fd.Message() != nil && !fd.IsList() && !fd.IsMap() {
			out = append(out, fd)
		}
	}
	return out
}

// responseMessages returns the messages of a route's response.
func (g *generator) responseMessages(r *surface.Route) []protoreflect.MessageDescriptor {
	md := r.Descriptor.Output()
	var fields []protoreflect.FieldDescriptor
	switch {
	case r.Kind == surface.Stream:
		fields = payloads(md)
	case r.ResponseBody != "":
		fd := md.Fields().ByName(protoreflect.Name(r.ResponseBody))
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		fields = []protoreflect.FieldDescriptor{fd}
	default:
		return []protoreflect.MessageDescriptor{md}
	}
	var out []protoreflect.MessageDescriptor
	for _, fd := range fields {
		if fd.Message() != nil {
			out = append(out, fd.Message())
		}
	}
	return out
}

func ref(kind, name string) *object { return obj("$ref", "#/components/"+kind+"/"+name) }

func requestID() *object { return obj("X-Request-Id", ref("headers", "X-Request-Id")) }

func failure(status int) *object { return ref("responses", "Error"+strconv.Itoa(status)) }

// failures returns the responses of all failures, by status, with the header that belongs to each.
func failures() *object {
	out := obj()
	for _, f := range []struct {
		status       int
		text, header string
		detail, code string
	}{
		{http.StatusBadRequest, "The request is refused; `detail` states why.", "", "no such project: search", "project"},
		{http.StatusUnauthorized, "The credential is missing, malformed, expired, revoked or of another kind.", "WWW-Authenticate", "Not authenticated", ""},
		{http.StatusForbidden, "The caller is authenticated, but the request is not allowed.", "", "only editors of project search may add to it", "not_editor"},
		{http.StatusNotFound, "The object does not exist, or the caller may not know that it does.", "", "no such job: job_01kb4q6z8wexamp1eexamp1e00", ""},
		{http.StatusConflict, "The request conflicts with the current state.", "", "this Idempotency-Key was already used with a different request", "idempotency_key"},
		{http.StatusLengthRequired, "The upload has no Content-Length.", "", "Content-Length is required", ""},
		{http.StatusRequestEntityTooLarge, "The request is larger than the limit.", "", "the request body exceeds the limit of 8388608 bytes", "body_too_large"},
		{http.StatusRequestedRangeNotSatisfiable, "The object has no bytes in that range.", "Content-Range", "the object has no bytes in that range", ""},
		{http.StatusUnprocessableEntity, "The request does not match its schema.", "", "", ""},
		{http.StatusTooManyRequests, "Too many requests.", "Retry-After", "too many streams are open", "streams"},
		{http.StatusNotImplemented, "The feature is not configured on this installation.", "", "this installation is not configured for it", ""},
		{http.StatusBadGateway, "A dependency failed, usually only for a short time.", "", "the object store does not respond", "blob_store_failed"},
		{http.StatusServiceUnavailable, "The installation is in maintenance, or the server is stopping.", "Retry-After", "the server is shutting down", "draining"},
	} {
		headers := requestID()
		if f.header != "" {
			headers.set(f.header, ref("headers", f.header))
		}
		schema, example := ref("schemas", "Error"), obj("detail", f.detail)
		if f.code != "" {
			example.set("code", f.code)
		}
		if f.status == http.StatusUnprocessableEntity {
			schema = ref("schemas", "HTTPValidationError")
			example.set("detail", []any{obj("type", "missing", "loc", []any{"body", "name"}, "msg", "Field required")})
		}
		out.set("Error"+strconv.Itoa(f.status), obj(
			"description", f.text, "headers", headers, "content", obj("application/json", obj("schema", schema, "example", example))))
	}
	return out
}
