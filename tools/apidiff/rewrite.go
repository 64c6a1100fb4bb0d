package main

import (
	"maps"
	"path"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// rewriter replaces keywords that oasdiff does not compare by keywords that oasdiff compares.
type rewriter struct{ doc map[string]any }

// rewrite changes a node and everything below it.
func (r rewriter) rewrite(node any) {
	switch node := node.(type) {
	case []any:
		for _, one := range node {
			r.rewrite(one)
		}
	case map[string]any:
		events(object(node, "content"))
		r.schema(node)
		for _, one := range node {
			r.rewrite(one)
		}
	}
}

// events makes each event of x-service-events a content type of the response, such as "event/job+json", because
// oasdiff has no checks for extensions. The suffix matters: oasdiff compares the types of values in JSON only.
func events(content map[string]any) {
	for _, media := range slices.Collect(maps.Keys(content)) {
		for event, schema := range object(object(content, media), "x-service-events") {
			content["event/"+event+"+json"] = map[string]any{"schema": schema}
		}
	}
}

// schema rewrites the keywords of a schema. It is called for every object of the document. Of the keywords below, only
// deprecated occurs outside schemas.
func (r rewriter) schema(node map[string]any) {
	// oasdiff permits the removal of deprecated parts, but such a removal breaks clients too.
	if _, ok := node["deprecated"].(bool); ok {
		delete(node, "deprecated")
	}
	// Otherwise oasdiff does not report an object of a request that no longer accepts other properties. The schema
	// {"not": {}} accepts nothing, as false does; oasdiff does not compare the value false.
	if node["additionalProperties"] == false {
		node["unevaluatedProperties"] = map[string]any{"not": map[string]any{}}
	}
	// Otherwise oasdiff does not report a parameter that now accepts only one value.
	if fixed, ok := node["const"].(string); ok && node["enum"] == nil {
		node["enum"] = []any{fixed}
	}
	// Without the next two statements, oasdiff does not report a response that loses the schema of its items or its anyOf.
	if node["type"] == "array" && node["items"] == nil {
		node["items"] = map[string]any{}
	}
	if forms, ok := node["anyOf"].([]any); ok && node["type"] == nil {
		if types := r.types(forms); types != nil {
			node["type"] = types
		}
	}
}

// types returns the types of the given forms, or nil if a form does not have exactly one type.
func (r rewriter) types(forms []any) []any {
	var out []any
	for _, form := range forms {
		schema, _ := form.(map[string]any)
		if ref, ok := schema["$ref"].(string); ok {
			schema = object(object(object(r.doc, "components"), "schemas"), path.Base(ref))
		}
		one, ok := schema["type"].(string)
		if !ok {
			return nil
		}
		if !slices.Contains(out, any(one)) {
			out = append(out, one)
		}
	}
	return out
}

// raisedRoles returns the operations that need the operator role in base and the admin role in head. The role is an
// extension, x-service-role, for which oasdiff has no checks.
func raisedRoles(base, head *openapi3.T) []string {
	var found []string
	for _, route := range base.Paths.InMatchingOrder() {
		now := head.Paths.Find(route)
		if now == nil {
			continue
		}
		for method, op := range base.Paths.Value(route).Operations() {
			to := now.GetOperation(method)
			if to != nil && op.Extensions["x-service-role"] == "operator" && to.Extensions["x-service-role"] == "admin" {
				found = append(found, method+" "+route+": needs the admin role")
			}
		}
	}
	slices.Sort(found)
	return found
}

// object returns a member that is an object, or nil.
func object(in map[string]any, name string) map[string]any {
	out, _ := in[name].(map[string]any)
	return out
}
