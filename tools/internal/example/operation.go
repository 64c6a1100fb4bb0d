package example

import (
	"strconv"
	"strings"
)

// operation is an operation of the document.
type operation struct {
	path, method string
	node         map[string]any
}

// operation returns the operation for a request line with variables. Of several, it is the one with the most literal
// segments.
func (d *document) operation(method, target string) operation {
	given, _, _ := strings.Cut(target, "?")
	var best operation
	most := -1
	paths := in(d.root, "paths")
	for _, path := range sorted(paths) {
		node := in(in(paths, path), strings.ToLower(method))
		literal := strings.Count(path, "/") - strings.Count(path, "{")
		if node != nil && literal > most && fits(path, given) {
			best, most = operation{path, strings.ToLower(method), node}, literal
		}
	}
	return best
}

// fits reports whether a path matches a template. The last variable of an engine or of the object store matches all
// remaining segments.
func fits(template, path string) bool {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	for i, segment := range want {
		if i >= len(have) || have[i] == "" && i > 0 {
			return false
		}
		if segment == "{rest}" || segment == "{key}" && strings.HasPrefix(template, "/api/blobs/") {
			return true
		}
		if !strings.HasPrefix(segment, "{") && segment != have[i] {
			return false
		}
	}
	return len(want) == len(have)
}

// response returns the response of the operation for a status, and its name. A response that several operations share
// has its own example.
func (op operation) response(status int) (node map[string]any, name string) {
	responses := in(op.node, "responses")
	name = strconv.Itoa(status)
	if node = in(responses, name); node == nil {
		name, node = "default", in(responses, "default")
	}
	return node, name
}
