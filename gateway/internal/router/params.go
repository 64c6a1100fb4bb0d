package router

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Params describes the fields that an RPC route reads from its path and its query.
type Params struct {
	// Method is the RPC.
	Method protoreflect.MethodDescriptor
	vars   []protoreflect.FieldDescriptor
	query  map[string]*parameter
}

type parameter struct {
	desc protoreflect.FieldDescriptor
	enum *scalar.Enum
}

// NewParams returns the parameters of a route, read from the linked descriptors.
func NewParams(rt *Route) (*Params, error) {
	service, method, _ := strings.Cut(rt.RPC, "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, fmt.Errorf("route %s %s: find the descriptor of service %s: %w", rt.Method, rt.Pattern, service, err)
	}
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok || sd.Methods().ByName(protoreflect.Name(method)) == nil {
		return nil, fmt.Errorf("route %s %s: RPC %s does not exist", rt.Method, rt.Pattern, rt.RPC)
	}
	s := &Params{Method: sd.Methods().ByName(protoreflect.Name(method)), query: make(map[string]*parameter)}
	fields := s.Method.Input().Fields()
	for _, name := range rt.Vars {
		fd := fields.ByName(protoreflect.Name(name))
		if fd == nil {
			return nil, fmt.Errorf("route %s %s: {%s} is not a field of %s", rt.Method, rt.Pattern, name, s.Method.Input().FullName())
		}
		s.vars = append(s.vars, fd)
	}
	for i := range fields.Len() {
		fd := fields.Get(i)
		if name := string(fd.Name()); rt.Body != "*" && rt.Body != name && !slices.Contains(rt.Vars, name) {
			p := &parameter{desc: fd}
			if fd.Enum() != nil {
				p.enum = scalar.NewEnum(fd.Enum())
			}
			s.query[name] = p
		}
	}
	return s, nil
}

// Vars checks the values of the path's variables against the types of their fields.
func (s *Params) Vars(values []string) *fault.Error {
	var fields []fault.Field
	for i, fd := range s.vars {
		if fd.Kind() == protoreflect.StringKind {
			continue
		}
		if _, ok := scalar.Integer(fd.Kind(), values[i]); !ok {
			fields = append(fields, fault.At(fault.TypeIntParsing, "Input should be a valid integer", "path", string(fd.Name())))
		}
	}
	if len(fields) > 0 {
		return fault.InvalidFields(fields...)
	}
	return nil
}
