package example

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// resolver turns the bodies of one golden into examples.
type resolver struct {
	doc *document
	// captured has the values that earlier responses of the golden have set.
	captured map[string]string
	// open is true if the golden leaves parts of the body open.
	open bool
}

// replace replaces the variables of a text. It returns an error for a variable that has no constant value.
func (r *resolver) replace(body string) (string, error) {
	var unknown error
	constant, prefix := variables(), prefixes()
	out := regexp.MustCompile(`\{\{([a-z][a-z0-9_]*)\}\}`).ReplaceAllStringFunc(body, func(sign string) string {
		name := sign[2 : len(sign)-2]
		if v, ok := r.captured[name]; ok {
			return v
		}
		if v, ok := constant[name]; ok {
			return v
		}
		if p, ok := prefix[name]; ok {
			return id(p)
		}
		unknown = fmt.Errorf("the variable %s has no constant value; add it to constant.go", name)
		return sign
	})
	return out, unknown
}

// json returns a JSON body as an example of the schema.
func (r *resolver) json(body string, node map[string]any) (any, error) {
	body, err := r.replace(body)
	if err != nil {
		return nil, err
	}
	if found := matcher(body); found != nil {
		return r.match(found, node, ""), nil
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return nil, errors.Join(errors.New("the body is not one JSON value"), err)
	}
	return r.value(v, node, ""), nil
}

// text returns a body that is not JSON as an example.
func (r *resolver) text(body string) (string, error) {
	body, err := r.replace(body)
	if err != nil {
		return "", err
	}
	if found := regexp.MustCompile(`^(?s)<<text LIKE (?:\(\?s\))?(.*?)(?: as [a-z0-9_]+)?>>$`).FindStringSubmatch(body); found != nil {
		r.open = true
		body = sample(found[1])
	}
	if body == "" || body == "<<any>>" {
		return "", errors.New("the golden leaves the body open")
	}
	return strings.TrimRight(body, "\n") + "\n", nil
}

func (r *resolver) value(v any, node map[string]any, name string) any {
	switch v := v.(type) {
	case string:
		if found := matcher(v); found != nil {
			return r.match(found, node, name)
		}
		return v
	case []any:
		return r.list(v, node, name)
	case map[string]any:
		return r.object(v, r.doc.at(node))
	default:
		return v
	}
}

// most is the maximum number of items of an array in an example.
const most = 2

func (r *resolver) list(list []any, node map[string]any, name string) []any {
	items, out := in(r.doc.at(node).node, "items"), []any{}
	for _, v := range list {
		if v == "<<each>>" || v == "<<some>>" {
			continue
		}
		if one := r.value(v, items, name); len(out) < most {
			out = append(out, one)
		}
	}
	return out
}

// object returns an object of a golden as an example. The open part gets the members of the complete object of the
// same component, and otherwise all required members.
func (r *resolver) object(v map[string]any, s schema) map[string]any {
	before := r.open
	r.open = false
	out := map[string]any{}
	for _, name := range sorted(v) {
		if name != "<<rest>>" {
			out[name] = r.value(v[name], s.property(name), name)
		}
	}
	model := r.doc.models[s.component]
	if _, rest := v["<<rest>>"]; rest {
		r.open = true
		for name := range model {
			if _, given := out[name]; !given {
				out[name] = clone(model[name])
			}
		}
		for _, name := range s.required() {
			if _, given := out[name]; !given {
				out[name] = r.doc.fill(s.property(name), name, 0)
			}
		}
	}
	if s.component != "" && !r.open && model == nil {
		r.doc.models[s.component], _ = clone(out).(map[string]any)
	}
	r.open = r.open || before
	return out
}
