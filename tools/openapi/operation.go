package main

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/tools/internal/surface"
)

// operation returns the operation of a call or of a stream.
func (g *generator) operation(r *surface.Route) (*object, error) {
	md := r.Descriptor
	op := obj("operationId", g.operationID(r), "tags", []any{g.tag(r.Pattern)}, "summary", sentence(string(md.Name())))
	if text := g.comment(md, string(md.Name())); text != "" {
		op.set("description", text)
	}
	op.set("security", security(r))
	if r.Role != "" {
		op.set("x-service-role", r.Role)
	}
	parameters, err := g.parameters(r)
	if err != nil {
		return nil, err
	}
	if len(parameters) > 0 {
		op.set("parameters", parameters)
	}
	body, err := g.requestBody(r)
	if err != nil {
		return nil, err
	}
	if body != nil {
		op.set("requestBody", body)
	}
	responses := obj()
	for _, status := range append([]int{r.Status}, r.Succeeds...) {
		response, err := g.success(r, status)
		if err != nil {
			return nil, err
		}
		responses.set(strconv.Itoa(status), response)
	}
	for _, status := range g.fails(r) {
		responses.set(strconv.Itoa(status), failure(status))
	}
	responses.sort()
	op.set("responses", responses)
	return op, nil
}

// operationID returns the call's name. Additional bindings get a suffix from their path. A name that is already used
// gets the name of its service as a prefix and, if necessary, a number.
func (g *generator) operationID(r *surface.Route) string {
	name := string(r.Descriptor.Name())
	if r.Additional {
		segments := strings.Split(strings.TrimPrefix(r.Pattern, "/api/"), "/")
		name += "Of" + sentenceCase(segments[0])
	}
	id := strings.ToLower(name[:1]) + name[1:]
	if g.ids[id] {
		id = r.Service + name
	}
	for n := 2; g.ids[id]; n++ {
		id = r.Service + name + strconv.Itoa(n)
	}
	g.ids[id] = true
	return id
}

func sentenceCase(path string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(path, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// sentence returns a call's name in words, for example `Get job` for GetJob.
func sentence(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) {
			b.WriteByte(' ')
			c = unicode.ToLower(c)
		}
		b.WriteRune(c)
	}
	return b.String()
}

// security returns the credentials of a route; any one of them is accepted.
func security(r *surface.Route) []any {
	switch r.Credential {
	case "user":
		return []any{obj("accessToken", []any{})}
	case "ingest":
		return []any{obj("ingestToken", []any{}), obj("ingestBearer", []any{})}
	case "deployment":
		return []any{obj("deploymentToken", []any{})}
	default:
		return []any{}
	}
}

// fails returns the failure statuses of a route: the statuses in the method's option, and those that the gateway can
// return for every route of its kind. 500 is a bug and never declared.
func (g *generator) fails(r *surface.Route) []int {
	out := slices.Clone(r.Fails)
	add := func(status int, when bool) {
		if when && !slices.Contains(out, status) {
			out = append(out, status)
		}
	}
	// The credential is missing, malformed or expired.
	add(http.StatusUnauthorized, r.Credential == "user")
	// The role is too low, or a generated password has not been changed yet.
	add(http.StatusForbidden, r.Credential == "user" && (r.Role == "admin" || !r.Drawn))
	// A path variable has a value that is never valid, such as an encoded slash.
	add(http.StatusBadRequest, len(r.Vars) > 0)
	// Every request has a query, and unknown names in it are refused.
	add(http.StatusUnprocessableEntity, true)
	add(http.StatusRequestEntityTooLarge, r.Body != "")
	// The installation is in maintenance, or the instance is shutting down.
	add(http.StatusServiceUnavailable, true)
	slices.Sort(out)
	return out
}

// requestBody returns the body of a route that takes one.
func (g *generator) requestBody(r *surface.Route) (*object, error) {
	if r.Body == "" {
		return nil, nil
	}
	input := r.Descriptor.Input()
	if r.Body != "*" {
		fd := input.Fields().ByName(protoreflect.Name(r.Body))
		rule, err := g.rules(fd)
		if err != nil {
			return nil, err
		}
		schema, err := g.field(fd, rule, sent)
		if err != nil {
			return nil, err
		}
		return bodyOf(schema, rule.truth("required")), nil
	}
	whole, err := g.message(input, sent, r.Vars)
	if err != nil {
		return nil, err
	}
	must := whole.get("required") != nil
	if len(g.leaves[input.FullName()]) > 1 {
		return bodyOf(whole, must), nil
	}
	return bodyOf(g.object(input, sent), must), nil
}

func bodyOf(schema *object, must bool) *object {
	return obj("required", must, "content", obj("application/json", obj("schema", schema)))
}

// requestMessages returns the messages of a route's request body.
func (g *generator) requestMessages(r *surface.Route) []protoreflect.MessageDescriptor {
	input := r.Descriptor.Input()
	switch r.Body {
	case "":
		return nil
	case "*":
		if !slices.ContainsFunc(g.leaves[input.FullName()], func(vars []string) bool { return slices.Equal(vars, r.Vars) }) {
			g.leaves[input.FullName()] = append(g.leaves[input.FullName()], r.Vars)
		}
		return []protoreflect.MessageDescriptor{input}
	default:
		if md := input.Fields().ByName(protoreflect.Name(r.Body)).Message(); md != nil {
			return []protoreflect.MessageDescriptor{md}
		}
		return nil
	}
}
