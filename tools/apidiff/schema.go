package main

import (
	"fmt"
	"slices"
)

// way is the direction of a value: sent by clients or returned by the server.
type way int

const (
	sent way = iota
	got
)

// schema compares two schemas of one value.
func (c *comparison) schema(at string, base, head map[string]any, w way) {
	if base == nil || head == nil {
		if (base == nil) != (head == nil) {
			c.say(at, "one of the two has no schema")
		}
		return
	}
	key := fmt.Sprintf("%p %p %d", base, head, w)
	if c.open[key] {
		return
	}
	c.open[key] = true
	defer delete(c.open, key)
	was, is := c.alternatives(c.base, base), c.alternatives(c.head, head)
	if len(was) == 1 && len(is) == 1 {
		c.plain(at, was[0], is[0], w)
		return
	}
	// Every alternative of a response must have been possible before. Every alternative that a request accepted must
	// still be accepted.
	must, may, said := was, is, "is no longer accepted"
	if w == got {
		must, may, said = is, was, "was not possible before"
	}
	for _, one := range must {
		if !slices.ContainsFunc(may, func(other map[string]any) bool { return c.fits(one, other, w) }) {
			c.say(at, "%s %s", kind(one), said)
		}
	}
}

// fits reports whether clients still work if the alternative one is replaced by other.
func (c *comparison) fits(one, other map[string]any, w way) bool {
	trial := &comparison{base: c.base, head: c.head, open: c.open}
	if w == sent {
		trial.plain("", one, other, w)
	} else {
		trial.plain("", other, one, w)
	}
	return len(trial.found) == 0
}

func kind(schema map[string]any) string {
	if t := schema["type"]; t != nil {
		return fmt.Sprint(t)
	}
	return "another form"
}

// alternatives returns the alternatives of a schema (its anyOf and its types). null is one of them.
func (c *comparison) alternatives(doc, schema map[string]any) []map[string]any {
	schema = c.follow(doc, schema)
	if all, ok := schema["allOf"].([]any); ok && len(all) == 1 {
		return c.alternatives(doc, asObject(all[0]))
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if options, ok := schema[word].([]any); ok {
			var out []map[string]any
			for _, option := range options {
				out = append(out, c.alternatives(doc, asObject(option))...)
			}
			return out
		}
	}
	types, ok := schema["type"].([]any)
	if !ok {
		return []map[string]any{schema}
	}
	out := make([]map[string]any, len(types))
	for i, t := range types {
		one := map[string]any{}
		for name, v := range schema {
			one[name] = v
		}
		one["type"] = t
		if t == "null" {
			one = map[string]any{"type": "null"}
		}
		out[i] = one
	}
	return out
}

// plain compares two schemas without alternatives.
func (c *comparison) plain(at string, base, head map[string]any, w way) {
	was, is := base["type"], head["type"]
	if was != is && !(was == "integer" && is == "number" && w == sent) && !(was == "number" && is == "integer" && w == got) {
		switch {
		case is == nil && w == sent, was == nil && w == got: // any type is accepted now, or was possible before
		default:
			c.say(at, "is %v, it was %v", is, was)
			return
		}
	}
	if base["format"] != head["format"] && (w == sent && head["format"] != nil || w == got && base["format"] != nil) {
		c.say(at, "has format %v, it had %v", head["format"], base["format"])
	}
	c.words(at, base, head, w)
	if w == sent {
		c.bounds(at, base, head)
	}
	c.properties(at, base, head, w)
	if items := asObject(base["items"]); items != nil {
		c.schema(at+"[]", items, asObject(head["items"]), w)
	}
}

// words compares the values of an enumeration. Responses may gain values.
func (c *comparison) words(at string, base, head map[string]any, w way) {
	was, is := values(base), values(head)
	if w == got {
		if fixed, ok := base["const"]; ok && !slices.Contains(is, fixed) {
			c.say(at, "is no longer %v", fixed)
		}
		return
	}
	if is == nil {
		return
	}
	if was == nil {
		c.say(at, "accepts only %v", is)
		return
	}
	for _, v := range was {
		if !slices.Contains(is, v) {
			c.say(at, "no longer accepts %v", v)
		}
	}
}

func values(schema map[string]any) []any {
	if fixed, ok := schema["const"]; ok {
		return []any{fixed}
	}
	list, _ := schema["enum"].([]any)
	return list
}

// bounds compares the limits of a request.
func (c *comparison) bounds(at string, base, head map[string]any) {
	for _, b := range []struct {
		name  string
		lower bool
	}{
		{"minimum", true}, {"exclusiveMinimum", true}, {"minLength", true}, {"minItems", true}, {"minProperties", true},
		{"maximum", false}, {"exclusiveMaximum", false}, {"maxLength", false}, {"maxItems", false}, {"maxProperties", false},
	} {
		was, had := base[b.name].(float64)
		is, has := head[b.name].(float64)
		tighter := b.lower && is > was || !b.lower && is < was
		// A minimum size of 0 has no effect.
		if has && (had && tighter || !had && !(b.lower && is <= 0 && b.name != "minimum" && b.name != "exclusiveMinimum")) {
			c.say(at, "%s is %v, it was %v", b.name, head[b.name], base[b.name])
		}
	}
	if head["pattern"] != nil && head["pattern"] != base["pattern"] {
		c.say(at, "has a different pattern")
	}
	if head["uniqueItems"] == true && base["uniqueItems"] != true {
		c.say(at, "requires unique items")
	}
}

func (c *comparison) properties(at string, base, head map[string]any, w way) {
	was, is := object(base, "properties"), object(head, "properties")
	for _, name := range sorted(was) {
		if is[name] == nil {
			if w == got || head["additionalProperties"] == false {
				c.say(at, "property %s is gone", name)
			}
			continue
		}
		c.schema(at+"."+name, object(was, name), object(is, name), w)
	}
	before, _ := base["required"].([]any)
	after, _ := head["required"].([]any)
	for _, name := range after {
		if w == sent && !slices.Contains(before, name) {
			c.say(at, "property %v is required", name)
		}
	}
	for _, name := range before {
		if w == got && is[fmt.Sprint(name)] != nil && !slices.Contains(after, name) {
			c.say(at, "property %v may be left out", name)
		}
	}
	if w == sent && head["additionalProperties"] == false && base["additionalProperties"] != false && base["type"] == "object" {
		c.say(at, "no longer accepts other properties")
	}
	if inner := object(base, "additionalProperties"); inner != nil && object(head, "additionalProperties") != nil {
		c.schema(at+".*", inner, object(head, "additionalProperties"), w)
	}
}
