package routes

import (
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/signalbox-dev/signalbox/gen/route"
)

// rpc returns the descriptor of the call that a route serves, or nil if it serves none.
func rpc(rt route.Route) protoreflect.MethodDescriptor {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(rt.RPC, "/", ".")))
	if err != nil {
		return nil
	}
	method, _ := found.(protoreflect.MethodDescriptor)
	return method
}

// hasField reports whether the request message of a route has a field.
func hasField(rt route.Route, name protoreflect.Name) bool {
	method := rpc(rt)
	return method != nil && method.Input().Fields().ByName(name) != nil
}

// List reports whether the route returns a list in pages.
func List(rt route.Route) bool {
	return reads(rt) && hasField(rt, "offset")
}

// Unpaged reports whether the route returns an array although its request lacks `limit` or `offset`.
func Unpaged(rt route.Route) bool { return reads(rt) && unpaged(rpc(rt)) }

func unpaged(method protoreflect.MethodDescriptor) bool {
	if !returnsArray(method) {
		return false
	}
	fields := method.Input().Fields()
	return fields.ByName("limit") == nil || fields.ByName("offset") == nil
}

// reads reports whether the route is a call with GET.
func reads(rt route.Route) bool { return rt.Kind == route.RPC && rt.Method == http.MethodGet }

// returnsArray reports whether the body of the response is a field of the message that is a list.
func returnsArray(method protoreflect.MethodDescriptor) bool {
	if method == nil {
		return false
	}
	rule, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	body := method.Output().Fields().ByName(protoreflect.Name(rule.GetResponseBody()))
	return body != nil && body.IsList()
}

// Limited reports whether the route returns a list whose pages the parameter `limit` makes shorter or longer.
func Limited(rt route.Route) bool { return List(rt) && hasField(rt, "limit") }

// Endless reports whether the route is a stream that does not end by itself: its events have no `eof`.
func Endless(rt route.Route) bool {
	method := rpc(rt)
	if rt.Kind != route.Stream || method == nil {
		return false
	}
	events := method.Output().Oneofs().ByName("event")
	return events != nil && events.Fields().ByName("eof") == nil
}

// Changing reports whether the route is a call of users whose method is not GET or HEAD. It must leave an audit row.
func Changing(rt route.Route) bool {
	return rt.Kind == route.RPC && rt.Credential == "user" && rt.Method != http.MethodGet && rt.Method != http.MethodHead
}
