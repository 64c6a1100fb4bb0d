package httprelay

import (
	"net/http"
	"slices"
	"strings"
)

// Field is one line of a header. The name has the canonical form of package http.
type Field struct{ Name, Value string }

// Header holds the lines of a header in their order. A name may occur several times.
type Header []Field

// HeaderOf returns the lines of h, sorted by name.
func HeaderOf(h http.Header) Header {
	out := make(Header, 0, len(h))
	for name, values := range h {
		for _, value := range values {
			out = append(out, Field{name, value})
		}
	}
	slices.SortStableFunc(out, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Map returns the header in the form of package http.
func (h Header) Map() http.Header {
	out := make(http.Header, len(h))
	for _, f := range h {
		out[f.Name] = append(out[f.Name], f.Value)
	}
	return out
}

// Get returns the first value of a name, or "".
func (h Header) Get(name string) string {
	for i := range h {
		if h[i].Name == name {
			return h[i].Value
		}
	}
	return ""
}

// Has reports whether there is a line with the name.
func (h Header) Has(name string) bool {
	return slices.ContainsFunc(h, func(f Field) bool { return f.Name == name })
}

// Values returns all values of a name.
func (h Header) Values(name string) []string {
	var values []string
	for i := range h {
		if h[i].Name == name {
			values = append(values, h[i].Value)
		}
	}
	return values
}

// Add adds a line.
func (h *Header) Add(name, value string) { *h = append(*h, Field{name, value}) }

// Set replaces all lines with the name by one.
func (h *Header) Set(name, value string) {
	h.Del(name)
	h.Add(name, value)
}

// Del removes all lines with the name.
func (h *Header) Del(name string) {
	*h = slices.DeleteFunc(*h, func(f Field) bool { return f.Name == name })
}

// List returns the values of a header that lists tokens, such as Connection, in lower case.
func (h Header) List(name string) []string {
	var all []string
	for _, f := range h {
		if f.Name != name {
			continue
		}
		for token := range strings.SplitSeq(f.Value, ",") {
			if token = strings.Trim(token, " \t"); token != "" {
				all = append(all, strings.ToLower(token))
			}
		}
	}
	return all
}
