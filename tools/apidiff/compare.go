package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// comparison compares two OpenAPI documents and collects the breaking changes.
type comparison struct {
	base, head map[string]any
	found      []string
	// open contains the pairs of schemas that are being compared, so that the comparison of recursive schemas ends.
	open map[string]bool
}

// compare returns the changes that break clients of base.
func compare(base, head map[string]any) []string {
	c := &comparison{base: base, head: head, open: map[string]bool{}}
	paths, now := object(base, "paths"), object(head, "paths")
	for _, path := range sorted(paths) {
		methods := object(paths, path)
		for _, method := range sorted(methods) {
			at := strings.ToUpper(method) + " " + path
			op, there := object(object(now, path), method), object(object(now, path), method) != nil
			if !there {
				c.say(at, "is gone")
				continue
			}
			c.operation(at, object(methods, method), op)
		}
	}
	slices.Sort(c.found)
	return slices.Compact(c.found)
}

func (c *comparison) say(at, format string, args ...any) {
	c.found = append(c.found, at+": "+fmt.Sprintf(format, args...))
}

func (c *comparison) operation(at string, base, head map[string]any) {
	c.access(at, base, head)
	c.parameters(at, base, head)
	c.request(at, object(base, "requestBody"), object(head, "requestBody"))
	was, is := object(base, "responses"), object(head, "responses")
	for _, status := range sorted(was) {
		if is[status] == nil {
			// Removing a failure breaks no client.
			if status < "4" || status == "default" {
				c.say(at, "no longer returns %s", status)
			}
			continue
		}
		c.response(at+" "+status, c.follow(c.base, object(was, status)), c.follow(c.head, object(is, status)))
	}
}

// access compares who may call: the new document must accept every credential of the old one and must not require a
// higher role.
func (c *comparison) access(at string, base, head map[string]any) {
	was, _ := base["security"].([]any)
	is, _ := head["security"].([]any)
	text := func(v any) string { return fmt.Sprint(v) }
	if len(was) == 0 && len(is) > 0 {
		c.say(at, "needs a credential")
	}
	for _, way := range was {
		if len(is) > 0 && !slices.ContainsFunc(is, func(other any) bool { return text(other) == text(way) }) {
			c.say(at, "no longer accepts %v", sorted(asObject(way)))
		}
	}
	if base["x-service-role"] == "operator" && head["x-service-role"] == "admin" {
		c.say(at, "needs the admin role")
	}
}

func (c *comparison) parameters(at string, base, head map[string]any) {
	was, is := c.named(c.base, base), c.named(c.head, head)
	for _, name := range sorted(was) {
		p, now := object(was, name), object(is, name)
		if now == nil {
			c.say(at, "parameter %s is gone", name)
			continue
		}
		if now["required"] == true && p["required"] != true {
			c.say(at, "parameter %s is required", name)
		}
		c.schema(at+" parameter "+name, object(p, "schema"), object(now, "schema"), sent)
	}
	for _, name := range sorted(is) {
		if was[name] == nil && object(is, name)["required"] == true {
			c.say(at, "new parameter %s is required", name)
		}
	}
}

// named returns an operation's parameters by location and name. Path parameters are keyed by position, because their
// names do not matter to clients.
func (c *comparison) named(doc, op map[string]any) map[string]any {
	out := map[string]any{}
	list, _ := op["parameters"].([]any)
	for i, p := range list {
		p := c.follow(doc, asObject(p))
		name := fmt.Sprint(p["in"], " ", p["name"])
		if p["in"] == "path" {
			name = fmt.Sprint("path #", i+1)
		}
		out[name] = p
	}
	return out
}

func (c *comparison) request(at string, base, head map[string]any) {
	switch {
	case base == nil && head == nil:
		return
	case base == nil:
		if head["required"] == true {
			c.say(at, "needs a body")
		}
		return
	case head == nil:
		c.say(at, "no longer accepts a body")
		return
	}
	if head["required"] == true && base["required"] != true {
		c.say(at, "needs a body")
	}
	was, is := object(base, "content"), object(head, "content")
	for _, media := range sorted(was) {
		if is[media] == nil {
			c.say(at, "no longer accepts %s", media)
			continue
		}
		c.schema(at+" body", object(object(was, media), "schema"), object(object(is, media), "schema"), sent)
	}
}

func (c *comparison) response(at string, base, head map[string]any) {
	is := object(head, "headers")
	for _, name := range sorted(object(base, "headers")) {
		if is[name] == nil {
			c.say(at, "header %s is gone", name)
		}
	}
	was, now := object(base, "content"), object(head, "content")
	for _, media := range sorted(was) {
		if now[media] == nil {
			c.say(at, "is no longer %s", media)
			continue
		}
		before, after := object(was, media), object(now, media)
		c.schema(at+" body", object(before, "schema"), object(after, "schema"), got)
		events, kept := object(before, "x-service-events"), object(after, "x-service-events")
		for _, event := range sorted(events) {
			if kept[event] == nil {
				c.say(at, "event %s is gone", event)
				continue
			}
			c.schema(at+" event "+event, object(events, event), object(kept, event), got)
		}
	}
}

// follow returns the schema to which node refers, or node itself if it is not a reference.
func (c *comparison) follow(doc, node map[string]any) map[string]any {
	for range 32 {
		ref, ok := node["$ref"].(string)
		if !ok {
			return node
		}
		node = doc
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			node = object(node, name)
		}
	}
	return nil
}

// object returns a member that is an object, or nil.
func object(in map[string]any, name string) map[string]any { return asObject(in[name]) }

func asObject(v any) map[string]any {
	out, _ := v.(map[string]any)
	return out
}

func sorted(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
