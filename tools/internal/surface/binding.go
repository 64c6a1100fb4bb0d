package surface

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// routes returns a row for every HTTP binding, and the gRPC services that have a binding. It checks every RPC of the
// product, so that an RPC without the access option is found here.
func (s *schema) routes() ([]*Route, []protoreflect.ServiceDescriptor, error) {
	var rows []*Route
	var bound []protoreflect.ServiceDescriptor
	for _, sd := range s.services() {
		before := len(rows)
		for i := range sd.Methods().Len() {
			found, err := s.bindings(sd.Methods().Get(i))
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, found...)
		}
		if len(rows) > before {
			bound = append(bound, sd)
		}
	}
	return rows, bound, nil
}

func (s *schema) bindings(md protoreflect.MethodDescriptor) ([]*Route, error) {
	who, err := s.accessOf(md)
	if err != nil {
		return nil, err
	}
	fails, succeeds, err := s.statusesOf(md)
	if err != nil {
		return nil, err
	}
	bindings := rules(md)
	if len(bindings) == 0 {
		return nil, nil
	}
	switch {
	case !public(md) || len(who.peers) > 0:
		return nil, fmt.Errorf("%s: an RPC between services must not have an HTTP binding", md.FullName())
	case who.credential != "none" && who.credential != "user":
		return nil, fmt.Errorf("%s: a route of the gateway cannot accept credential %q", md.FullName(), who.credential)
	case md.IsStreamingClient() || md.IsStreamingServer():
		return nil, fmt.Errorf("%s: a stream must not have an HTTP binding; list it in http_extra_routes.yaml", md.FullName())
	}
	if err := checkShapes(md); err != nil {
		return nil, err
	}
	var rows []*Route
	for i, rule := range bindings {
		row, err := bind(md, rule)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", md.FullName(), err)
		}
		row.allow(who)
		row.Fails, row.Succeeds, row.Additional = fails, succeeds, i > 0
		rows = append(rows, row)
	}
	return rows, nil
}

func bind(md protoreflect.MethodDescriptor, rule *annotations.HttpRule) (*Route, error) {
	row := &Route{
		Kind: RPC, RPC: fullMethod(md), Service: ServiceOf(md), Body: rule.GetBody(), ResponseBody: rule.GetResponseBody(), Descriptor: md,
	}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		row.Method, row.Pattern = http.MethodGet, p.Get
	case *annotations.HttpRule_Put:
		row.Method, row.Pattern = http.MethodPut, p.Put
	case *annotations.HttpRule_Post:
		row.Method, row.Pattern = http.MethodPost, p.Post
	case *annotations.HttpRule_Delete:
		row.Method, row.Pattern = http.MethodDelete, p.Delete
	case *annotations.HttpRule_Patch:
		row.Method, row.Pattern = http.MethodPatch, p.Patch
	default:
		return nil, errors.New("the HTTP rule has no path or an unknown method")
	}
	row.Status = statusOf(md, row.Method)
	vars, err := parsePattern(row.Pattern, false)
	if err != nil {
		return nil, err
	}
	row.Vars = vars
	if err := checkVars(md.Input(), vars); err != nil {
		return nil, err
	}
	if (row.Method == http.MethodGet || row.Method == http.MethodDelete) && row.Body != "" {
		return nil, fmt.Errorf("%s %s: a %s request must not have a body", row.Method, row.Pattern, row.Method)
	}
	if err := checkBody(md, row.Body, rule.GetResponseBody()); err != nil {
		return nil, err
	}
	return row, checkQuery(md.Input(), vars, row.Body)
}

// statusOf returns the status of a successful response if the service does not set one.
func statusOf(md protoreflect.MethodDescriptor, method string) int {
	name := string(md.Name())
	switch {
	case method == http.MethodPost && (strings.HasPrefix(name, "Create") || strings.HasPrefix(name, "Submit") || strings.HasPrefix(name, "Register")):
		return http.StatusCreated
	case method == http.MethodDelete && md.Output().FullName() == "google.protobuf.Empty":
		return http.StatusNoContent
	default:
		return http.StatusOK
	}
}
