package routes

import (
	"net/http"
	"strings"

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
	return rt.Kind == route.RPC && rt.Method == http.MethodGet && hasField(rt, "offset")
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
