package example

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// Example is the example of the request body or of a response of an operation.
type Example struct {
	Path, Method string
	// Status is the status of the response, or empty for the request body.
	Status string
	Media  string
	Value  any

	schema map[string]any
	rank   int
}

// Choose returns the examples of the operations of an OpenAPI document, ordered as the goldens are. A part without a
// golden has none.
func Choose(root map[string]any, goldens Goldens) []Example {
	d := &document{root: root, models: map[string]map[string]any{}}
	d.all(goldens) // finds the models
	var order []string
	best := map[string]Example{}
	for _, e := range d.all(goldens) {
		key := strings.Join([]string{e.Path, e.Method, e.Status, e.Media}, " ")
		old, known := best[key]
		if !known {
			order = append(order, key)
		}
		if !known || e.rank > old.rank {
			best[key] = e
		}
	}
	out := make([]Example, 0, len(order))
	for _, key := range order {
		e := best[key]
		if list, ok := e.Value.([]any); ok && len(list) == 0 {
			e.Value = d.fill(e.schema, "", 0)
		}
		out = append(out, e)
	}
	return out
}

// all returns the examples of all exchanges.
func (d *document) all(goldens Goldens) []Example {
	var out []Example
	for _, golden := range goldens {
		r := &resolver{doc: d, captured: map[string]string{}}
		for _, e := range golden {
			op := d.operation(e.method, e.target)
			if op.node == nil {
				continue
			}
			response, answered := r.response(op, e)
			if answered {
				out = append(out, response)
			}
			if request, ok := r.request(op, e); ok && e.status < 400 {
				// The request belongs to the response, so both are chosen together.
				request.rank += response.rank
				out = append(out, request)
			}
		}
	}
	return out
}

func (r *resolver) request(op operation, e exchange) (Example, bool) {
	content := in(in(op.node, "requestBody"), "content")
	return r.example(op, e, "", content, e.request)
}

func (r *resolver) response(op operation, e exchange) (Example, bool) {
	node, status := op.response(e.status)
	return r.example(op, e, status, in(node, "content"), e.response)
}

// example returns a body of an exchange as an example, if the operation declares its media type.
func (r *resolver) example(op operation, e exchange, status string, content map[string]any, m message) (Example, bool) {
	if len(content) == 1 {
		m.media = sorted(content)[0]
	}
	declared := in(content, m.media)
	if declared == nil || m.body == "" {
		return Example{}, false
	}
	r.open = false
	var v any
	var err error
	switch {
	case m.media == "application/json" || m.media == "*/*" && strings.HasPrefix(m.body, "{"):
		v, err = r.json(m.body, in(declared, "schema"))
	case m.media == "application/x-www-form-urlencoded":
		v, err = r.form(m.body)
	default:
		v, err = r.text(m.body)
	}
	if err != nil {
		return Example{}, false
	}
	return Example{Path: op.path, Method: op.method, Status: status, Media: m.media, Value: v, schema: in(declared, "schema"), rank: r.rank(v, e)}, true
}

func (r *resolver) form(body string) (any, error) {
	body, err := r.replace(body)
	if err != nil {
		return nil, err
	}
	fields, err := url.ParseQuery(body)
	out := map[string]any{}
	for name := range fields {
		out[name] = fields.Get(name)
	}
	return out, err
}

// large is the size in bytes from which a smaller example is preferred.
const large = 3000

// rank returns how well an exchange serves as an example. Of equals, the first is chosen.
func (r *resolver) rank(v any, e exchange) int {
	text, _ := json.Marshal(v) //nolint:errchkjson // the value was read from JSON
	rank := 0
	for _, fact := range []struct {
		holds bool
		worth int
	}{{e.marked, 100}, {len(text) > 2, 16}, {len(text) < large, 8}, {!r.open, 4}, {!bytes.Contains(text, []byte("[]")), 2}, {e.request.body != "", 1}} {
		if fact.holds {
			rank += fact.worth
		}
	}
	return rank
}
