package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// route is one row of the table.
type route struct {
	method, pattern  string
	kind             string
	handler          string
	rpc              string
	service          string
	credential, role string
	body             string
	status           int
}

// routes makes the rows of every HTTP binding and lists the gRPC services that have one. It looks at
// every RPC of the product, so that one without the access option fails here already.
func (s *schema) routes() ([]route, []protoreflect.ServiceDescriptor, error) {
	var rows []route
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

func (s *schema) bindings(md protoreflect.MethodDescriptor) ([]route, error) {
	who, err := s.accessOf(md)
	if err != nil {
		return nil, err
	}
	bindings := rules(md)
	if len(bindings) == 0 {
		return nil, nil
	}
	switch {
	case !public(md) || len(who.peers) > 0:
		return nil, fmt.Errorf("%s: an RPC between services has no HTTP binding", md.FullName())
	case who.credential != "none" && who.credential != "user":
		return nil, fmt.Errorf("%s: a route of the gateway cannot take credential %q", md.FullName(), who.credential)
	case md.IsStreamingClient() || md.IsStreamingServer():
		return nil, fmt.Errorf("%s: a stream has no HTTP binding; list it in http_routes.yaml", md.FullName())
	}
	if err := checkShapes(md); err != nil {
		return nil, err
	}
	var rows []route
	for _, rule := range bindings {
		row, err := bind(md, rule)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", md.FullName(), err)
		}
		row.credential, row.role = who.credential, who.role
		rows = append(rows, row)
	}
	return rows, nil
}

func bind(md protoreflect.MethodDescriptor, rule *annotations.HttpRule) (route, error) {
	row := route{kind: "RPC", rpc: string(md.Parent().FullName()) + "/" + string(md.Name()), service: serviceOf(md), body: rule.GetBody()}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		row.method, row.pattern = http.MethodGet, p.Get
	case *annotations.HttpRule_Put:
		row.method, row.pattern = http.MethodPut, p.Put
	case *annotations.HttpRule_Post:
		row.method, row.pattern = http.MethodPost, p.Post
	case *annotations.HttpRule_Delete:
		row.method, row.pattern = http.MethodDelete, p.Delete
	case *annotations.HttpRule_Patch:
		row.method, row.pattern = http.MethodPatch, p.Patch
	default:
		return route{}, errors.New("binding of an unknown kind")
	}
	row.status = statusOf(md, row.method)
	vars, err := parsePattern(row.pattern, false)
	if err != nil {
		return route{}, err
	}
	if err := checkVars(md.Input(), vars); err != nil {
		return route{}, err
	}
	if (row.method == http.MethodGet || row.method == http.MethodDelete) && row.body != "" {
		return route{}, fmt.Errorf("%s %s: a %s takes no body", row.method, row.pattern, row.method)
	}
	if err := checkBody(md, row.body, rule.GetResponseBody()); err != nil {
		return route{}, err
	}
	return row, checkQuery(md.Input(), vars, row.body)
}

// statusOf is the answer's status where the service says nothing else.
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
