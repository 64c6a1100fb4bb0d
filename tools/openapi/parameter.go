package main

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/tools/internal/surface"
)

// Bounds of the paging parameters, as in platform/request.
const (
	maxLimit     = 500
	defaultLimit = 50
	maxOffset    = 100_000
)

// parameters returns the parameters of the path and the query, and the header Last-Event-ID or Idempotency-Key if the
// route reads it.
func (g *generator) parameters(r *surface.Route) ([]any, error) {
	var out []any
	fields := r.Descriptor.Input().Fields()
	for _, name := range r.Vars {
		p, err := g.parameter(fields.ByName(protoreflect.Name(name)), "path")
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	for i := range fields.Len() {
		fd := fields.Get(i)
		if name := string(fd.Name()); r.Body == "*" || name == r.Body || slices.Contains(r.Vars, name) {
			continue
		}
		p, err := g.parameter(fd, "query")
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	switch {
	case r.Kind == surface.Stream:
		out = append(out, obj("$ref", "#/components/parameters/LastEventID"))
	case r.Method == http.MethodPost && r.Status == http.StatusCreated && r.Credential == "user":
		out = append(out, obj("$ref", "#/components/parameters/IdempotencyKey"))
	}
	return out, nil
}

func (g *generator) parameter(fd protoreflect.FieldDescriptor, place string) (*object, error) {
	r, err := g.rules(fd)
	if err != nil {
		return nil, err
	}
	schema, err := g.field(fd, r, sent)
	if err != nil {
		return nil, err
	}
	name := string(fd.Name())
	p := obj("name", name, "in", place, "required", place == "path" || needed(fd, r))
	text := g.comment(fd, "")
	if place == "query" && fd.Kind() == protoreflect.Int32Kind {
		text = paged(name, text, schema)
	}
	if place == "path" && fd.Kind() == protoreflect.StringKind && schema.get("minLength") == nil {
		schema.set("minLength", int64(1)) // an empty segment is a different path
	}
	if text != "" {
		p.set("description", text)
	}
	p.set("schema", schema)
	return p, nil
}

// paged sets the bounds of limit and offset, which are the same for every list, and returns the description. A
// parameter whose rules state another maximum does not belong to a list and is left unchanged.
func paged(name, text string, schema *object) string {
	most := map[string]int{"limit": maxLimit, "offset": maxOffset}[name]
	if stated := fmt.Sprint(schema.get("maximum")); stated != strconv.Itoa(most) && stated != strconv.Itoa(math.MaxInt32) {
		return text
	}
	switch name {
	case "limit":
		schema.set("minimum", int64(1))
		schema.set("maximum", int64(maxLimit))
		schema.set("default", int64(defaultLimit))
		if text == "" {
			text = "The maximum number of rows."
		}
	case "offset":
		schema.set("minimum", int64(0))
		schema.set("maximum", int64(maxOffset))
		schema.set("default", int64(0))
		if text == "" {
			text = "The number of rows to skip."
		}
	}
	return text
}
