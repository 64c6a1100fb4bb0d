// Package surface reads the public surface of the product from a buf image and proto/http_routes.yaml: every route
// that the gateway answers, with its credential, its statuses and the RPC behind it. The generators of the route
// table and of the OpenAPI document stand on it, so that both say the same.
//
// It refuses a schema that the edge could not serve safely: an RPC without the access option, a binding whose
// credential no HTTP request can carry, a path template the edge does not match, two bindings of one method and
// path, a field whose type has no form in the contract, a status that is none.
package surface

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Kind says how a route is served; the words are those of gen/route.
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
	// RPC is the full name of the call, Service the service that owns it, Descriptor the call itself; unset for raw routes.
	RPC, Service string
	Descriptor   protoreflect.MethodDescriptor
	// Credential is none, user, ingest, deployment or signature, Role the least role of a user.
	Credential, Role string
	// Drawn says that a person may call it before changing a drawn password, InMaintenance that it answers in
	// maintenance too.
	Drawn, InMaintenance bool
	// Limit is how many seconds a call may take; 0 is the gateway's own limit.
	Limit int
	// Body is "*" where the whole request is the body, a field's name, or empty; ResponseBody a field's name or empty.
	Body, ResponseBody string
	// Vars are the names of the path's variables.
	Vars []string
	// Status is the status of an answer where the service says nothing else.
	Status int
	// Fails and Succeeds are the statuses that the method's options name.
	Fails, Succeeds []int
	// Additional marks every binding of a call but its first.
	Additional bool
}

// Surface is everything that the gateway answers.
type Surface struct {
	*schema

	// Routes come by pattern and method.
	Routes []*Route
	// Services are the gRPC services that have a route, by name.
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
