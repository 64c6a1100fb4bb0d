package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/signalbox-dev/signalbox/tools/internal/example"
	"github.com/signalbox-dev/signalbox/tools/internal/surface"
)

// overlay is the content of proto/openapi_overlay.yaml.
type overlay struct {
	// head contains the document's top-level members except paths and components: openapi, info and others.
	head *object
	// areas are the document's tags with their path prefixes.
	areas []area
	// operations are the operations of routes that are not RPCs. patches apply to generated operations, components to
	// generated components.
	operations, patches, components *object
}

type area struct {
	tag   *object
	paths []any
}

func readOverlay(data []byte) (*overlay, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(data, &node); err != nil {
		return nil, fmt.Errorf("parse overlay: %w", err)
	}
	if node.Kind == 0 {
		return nil, errors.New("parse overlay: it is empty")
	}
	v, err := fromYAML(&node)
	if err != nil {
		return nil, fmt.Errorf("parse overlay: %w", err)
	}
	doc, ok := v.(*object)
	if !ok {
		return nil, errors.New("parse overlay: it is not a mapping")
	}
	known := []string{"document", "areas", "operations", "patches", "components"}
	for _, name := range doc.names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("parse overlay: %q is not one of %v", name, known)
		}
	}
	o := &overlay{head: doc.in("document"), operations: doc.in("operations"), patches: doc.in("patches"), components: doc.in("components")}
	areas, _ := doc.get("areas").([]any)
	for _, a := range areas {
		tag, ok := a.(*object)
		if !ok {
			return nil, errors.New("parse overlay: an area must be a mapping")
		}
		paths, _ := tag.get("paths").([]any)
		tag.drop("paths")
		o.areas = append(o.areas, area{tag, paths})
	}
	return o, nil
}

// tag returns the area of a path: the area with the longest matching prefix, or else the first segment after /api.
func (g *generator) tag(pattern string) string {
	name, longest := "", -1
	for _, a := range g.overlay.areas {
		for _, p := range a.paths {
			prefix, _ := p.(string)
			if inside(pattern, prefix) && len(prefix) > longest {
				name, _ = a.tag.get("name").(string)
				longest = len(prefix)
			}
		}
	}
	if name == "" {
		name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(pattern, "/"), "api/"), "/")
	}
	g.tags[name] = true
	return name
}

func inside(pattern, prefix string) bool {
	rest, ok := strings.CutPrefix(pattern, prefix)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(prefix, "/"))
}

// raw returns the operation of a route that is not an RPC, from the overlay. For a HEAD without an operation, it
// returns the operation of the GET, without bodies. raw adds the responses for the statuses in `fails`, and 503 for all
// routes except health and version, which are always served.
func (g *generator) raw(r *surface.Route) (*object, error) {
	key := r.Method + " " + r.Pattern
	v, ok := g.overlay.operations.get(key).(*object)
	if !ok && r.Method == http.MethodHead {
		get, found := g.overlay.operations.get("GET " + r.Pattern).(*object)
		if v, ok = get, found; found {
			v = v.copy()
			id, _ := v.get("operationId").(string)
			v.set("operationId", id+"Head")
		}
	}
	if !ok {
		return nil, fmt.Errorf("%s is not an RPC and has no operation in the overlay (proto/openapi_overlay.yaml, operations)", key)
	}
	g.described[key] = true
	op := v.copy()
	id, _ := op.get("operationId").(string)
	if id == "" || g.ids[id] {
		return nil, fmt.Errorf("%s: operationId %q is empty or already used", key, id)
	}
	g.ids[id] = true
	if op.get("tags") == nil {
		op.set("tags", []any{g.tag(r.Pattern)})
	}
	if op.get("security") == nil {
		op.set("security", security(r))
	}
	named(op, r.Vars)
	if err := addFailures(op); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	responses := op.in("responses")
	always := r.Handler == "health" || r.Handler == "version"
	if unavailable := strconv.Itoa(http.StatusServiceUnavailable); !always && responses.get(unavailable) == nil {
		responses.set(unavailable, failure(http.StatusServiceUnavailable))
		responses.sort()
	}
	if r.Method == http.MethodHead {
		bare(op)
	}
	return op, nil
}

// named adds the path variables that the overlay does not describe.
func named(op *object, vars []string) {
	given, _ := op.get("parameters").([]any)
	for _, name := range vars {
		if !slices.ContainsFunc(given, func(p any) bool { o, _ := p.(*object); return o != nil && o.get("name") == name }) {
			given = append(given, obj("name", name, "in", "path", "required", true, "schema", obj("type", "string", "minLength", int64(1))))
		}
	}
	if len(given) > 0 {
		op.set("parameters", given)
	}
}

// addFailures adds the failures that the overlay lists by status, and the header that all responses have.
func addFailures(op *object) error {
	responses := op.in("responses")
	fails, _ := op.get("fails").([]any)
	op.drop("fails")
	for _, f := range fails {
		status, ok := f.(int)
		if !ok {
			return fmt.Errorf("fails: %v is not a status", f)
		}
		if key := strconv.Itoa(status); responses.get(key) == nil {
			responses.set(key, failure(status))
		}
	}
	if responses.len() == 0 {
		return errors.New("the operation has no responses")
	}
	for _, status := range responses.names {
		if response, ok := responses.get(status).(*object); ok && response.get("$ref") == nil {
			headers := response.in("headers")
			headers.set("X-Request-Id", ref("headers", "X-Request-Id"))
		}
	}
	responses.sort()
	return nil
}

// bare removes the bodies from the responses of a HEAD operation.
func bare(op *object) {
	responses := op.in("responses")
	for _, status := range responses.names {
		response, _ := responses.get(status).(*object)
		if response.get("$ref") != nil {
			responses.set(status, obj("description", "As for GET, without a body.", "headers", requestID()))
			continue
		}
		response.drop("content")
	}
}

// addExamples adds the examples of the goldens to the bodies that have none.
func addExamples(document *object, goldens example.Goldens) error {
	text, err := plain(document)
	if err != nil {
		return err
	}
	var root map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		return fmt.Errorf("read the document without examples: %w", err)
	}
	for _, e := range example.Choose(root, goldens) {
		body := document.in("paths").in(e.Path).in(e.Method)
		if e.Status == "" {
			body = body.in("requestBody")
		} else {
			body = body.in("responses").in(e.Status)
		}
		if media := body.in("content").in(e.Media); media.get("example") == nil {
			media.set("example", e.Value)
		}
	}
	return nil
}
