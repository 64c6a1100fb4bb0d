// Package router finds the route of a request in the route table, and reads the route's parameters from path and
// query.
//
// It first refuses paths that two parsers could read differently. The paths of calls to engines are judged by package
// enginepath, which the services behind the gateway use too. It never redirects. For a path that exists only
// for other methods it returns those methods. The query may set the fields of the request message that neither the
// body nor the path sets. It is read as strictly as a body: only known names, repeated only for lists, with values of
// the field's type. Every fault of a parameter has a location.
//
// It is the only package that chooses the route of a path. The match travels in the request's context, and the handler
// of an RPC route gets the path's values from the match. Three later readers see the path, but none of them chooses a
// route: the gateway's own forms and pages compare the path with their few literal paths; the handlers of the byte
// routes read the rest of the path, because they may serve in another process; and middleware.Fail takes the format of
// an error from the prefix of the path, because a request without a route needs a format, too.
package router

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Router stores the table as a tree of path segments. It is immutable.
type Router struct {
	root   *node
	routes []*Route
}

type node struct {
	literal  map[string]*node
	variable *node
	rest     *node
	routes   []*Route
}

// Route is a row of the table with its parsed pattern.
type Route struct {
	route.Route
	// Vars are the names of the pattern's variables, in order.
	Vars []string
}

// Match is the route of a request, with the values of the route's variables.
type Match struct {
	*Route
	Values []string
}

// Variables returns the path's values by the names of their variables.
func (m *Match) Variables() map[string]string {
	values := make(map[string]string, len(m.Vars))
	for i, name := range m.Vars {
		values[name] = m.Values[i]
	}
	return values
}

// New returns a router for the table.
func New(table []route.Route) (*Router, error) {
	r := &Router{root: &node{}}
	for _, row := range table {
		if err := r.add(row); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Router) add(row route.Route) error {
	rt := &Route{Route: row}
	at := r.root
	segments := strings.Split(strings.TrimPrefix(row.Pattern, "/"), "/")
	for i, segment := range segments {
		name, isVar := strings.CutPrefix(segment, "{")
		name, isRest := strings.CutSuffix(strings.TrimSuffix(name, "}"), "...")
		switch {
		case isVar && isRest && i == len(segments)-1:
			at.rest = child(at.rest)
			at = at.rest
		case isVar && !isRest:
			at.variable = child(at.variable)
			at = at.variable
		case !isVar && segment != "":
			if at.literal == nil {
				at.literal = make(map[string]*node)
			}
			at.literal[segment] = child(at.literal[segment])
			at = at.literal[segment]
		default:
			return fmt.Errorf("route %s %s: pattern is not well formed", row.Method, row.Pattern)
		}
		if isVar {
			rt.Vars = append(rt.Vars, name)
		}
	}
	at.routes = append(at.routes, rt)
	r.routes = append(r.routes, rt)
	return nil
}

// Routes returns the routes in the table's order.
func (r *Router) Routes() []*Route { return r.routes }

func child(n *node) *node {
	if n == nil {
		return &node{}
	}
	return n
}

// Find returns the route of a request, or the fault for the client. Calls to engines are routed by their path as it was
// sent, all other requests by their decoded path.
func (r *Router) Find(req *http.Request) (*Match, *fault.Error) {
	path, engine, f := enginePath(req)
	if f != nil {
		return nil, f
	}
	if !engine {
		if f := CheckPath(req); f != nil {
			return nil, f
		}
		path = req.URL.Path
	}
	s := search{method: req.Method}
	if s.walk(r.root, path[1:]) {
		return &Match{Route: s.found, Values: s.values}, nil
	}
	if len(s.allowed) == 0 {
		return nil, fault.New(fault.Absent, "", "Not Found")
	}
	return nil, fault.New(fault.MethodNotAllowed, "", "Method Not Allowed").Wrap(&MethodError{s.allowed})
}

// MethodError is the cause of a 405 and contains the methods that the path supports.
type MethodError struct{ Methods []string }

// Error implements error.
func (e *MethodError) Error() string { return "allowed: " + e.Allow() }

// Allow returns the value of the Allow header.
func (e *MethodError) Allow() string {
	methods := slices.Clone(e.Methods)
	slices.Sort(methods)
	return strings.Join(slices.Compact(methods), ", ")
}

// search is one walk down the tree. It tries literals first, then variables, then rest-of-path variables.
type search struct {
	method  string
	values  []string
	found   *Route
	allowed []string
}

func (s *search) walk(at *node, path string) bool {
	segment, rest, more := strings.Cut(path, "/")
	if next := at.literal[segment]; next != nil && s.down(next, rest, more) {
		return true
	}
	if at.variable != nil {
		s.values = append(s.values, segment)
		if s.down(at.variable, rest, more) {
			return true
		}
		s.values = s.values[:len(s.values)-1]
	}
	if at.rest != nil {
		s.values = append(s.values, path)
		if s.take(at.rest) {
			return true
		}
		s.values = s.values[:len(s.values)-1]
	}
	return false
}

func (s *search) down(next *node, rest string, more bool) bool {
	if more {
		return s.walk(next, rest)
	}
	return s.take(next)
}

func (s *search) take(at *node) bool {
	for _, rt := range at.routes {
		if rt.Method == s.method || rt.Method == "*" && s.method != http.MethodConnect && s.method != http.MethodTrace {
			s.found = rt
			return true
		}
		if rt.Method != "*" {
			s.allowed = append(s.allowed, rt.Method)
		}
	}
	if len(at.routes) > 0 && len(s.allowed) == 0 {
		s.allowed = []string{http.MethodGet, http.MethodPost}
	}
	return false
}
