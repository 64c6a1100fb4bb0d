// Package surface reads the public surface of the product from a buf image and proto/http_extra_routes.yaml: every
// route that the gateway serves, with its credential, its statuses and its RPC. The generators of the route table and
// of the OpenAPI document both use it, so that the table and the document agree.
//
// It rejects a schema that the gateway could not serve safely: an RPC without the access option, a binding whose
// credential is neither none nor user, an unsupported path template, two bindings of one method and path, a field
// whose type the API's JSON cannot express, an invalid status.
package surface

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Kind states how a route is served. The values are the names of the constants in gen/route.
type Kind string

// The kinds of routes.
const (
	RPC    Kind = "RPC"
	Stream Kind = "Stream"
	Raw    Kind = "Raw"
)

// Route is one method and path of the public API.
type Route struct {
	Method, Pattern string
	Kind            Kind
	// Handler names the handler of a raw route.
	Handler string
	// RPC is the full name of the call, Service is the service that owns it, and Descriptor describes it. All three
	// are unset for raw routes.
	RPC, Service string
	Descriptor   protoreflect.MethodDescriptor
	// Credential is one of none, user, ingest, deployment or signature; Role is the minimum role of a user.
	Credential, Role string
	// Drawn reports whether users may call the route before they have changed a generated password. InMaintenance
	// reports whether the route is served during maintenance.
	Drawn, InMaintenance bool
	// Limit is the maximum duration of a call in seconds; 0 means the gateway's default.
	Limit int
	// Body is "*" if the whole request is the body, a field's name, or empty; ResponseBody is a field's name or
	// empty.
	Body, ResponseBody string
	// Vars are the names of the path's variables.
	Vars []string
	// Status is the success status if the service sets none.
	Status int
	// Fails and Succeeds are the statuses of the method's options.
	Fails, Succeeds []int
	// Additional is true for every binding of a call except its first.
	Additional bool
}

// Surface lists the routes and services that the gateway serves.
type Surface struct {
	*schema

	// Routes are sorted by pattern and method.
	Routes []*Route
	// Services are the gRPC services that have a route, sorted by name.
	Services []protoreflect.ServiceDescriptor
}

// Read reads an image and the list of routes that no RPC annotation describes.
func Read(image, list []byte) (*Surface, error) {
	s, err := loadSchema(image)
	if err != nil {
		return nil, err
	}
	routes, services, err := s.routes()
	if err != nil {
		return nil, err
	}
	others, err := s.listed(list)
	if err != nil {
		return nil, err
	}
	routes, err = arrange(append(routes, others...))
	if err != nil {
		return nil, err
	}
	return &Surface{schema: s, Routes: routes, Services: services}, nil
}

func (r *Route) allow(who access) {
	r.Credential, r.Role, r.Drawn = who.credential, who.role, who.drawn
	r.InMaintenance, r.Limit = who.inMaintenance, who.limit
}
