// Package openapi checks responses of a running installation against the OpenAPI document (gen/openapi): the status
// must be declared, the headers and the content type must match the declared response, and the body must be valid
// against its schema by JSON Schema 2020-12.
package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/signalbox-dev/signalbox/gen/openapi"
)

// location is the URL of the document in the schema compiler.
const location = "openapi.json"

// Document is a parsed OpenAPI document.
type Document struct {
	root map[string]any
	all  []*Operation

	mu       sync.Mutex // guards the compiler, which is not safe for concurrent use
	compiler *jsonschema.Compiler
}

// Operation is one method of one path.
type Operation struct {
	// Method is in upper case, Path is the template in the document and ID is the operationId.
	Method, Path, ID string
	// Passthrough marks an operation that returns the responses of an engine. They may have any form.
	Passthrough bool

	doc     *Document
	node    map[string]any
	pointer string
}

// Load parses the OpenAPI document that is embedded in the program.
func Load() (*Document, error) { return Parse(openapi.Document) }

// Parse parses an OpenAPI document.
func Parse(data []byte) (*Document, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("read document: not a JSON object")
	}
	d := &Document{root: root, compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(location, value); err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	paths := object(root, "paths")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := object(paths, path)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			node := object(item, method)
			if node == nil {
				continue
			}
			id, _ := node["operationId"].(string)
			through, _ := node["x-service-passthrough"].(bool)
			d.all = append(d.all, &Operation{
				Method: strings.ToUpper(method), Path: path, ID: id, Passthrough: through,
				doc: d, node: node, pointer: "/paths/" + escaped(path) + "/" + method,
			})
		}
	}
	return d, nil
}

// Operations returns all operations, ordered by path and method.
func (d *Document) Operations() []*Operation { return d.all }

// Operation returns the operation for a method and a path. path is the path of a request without its query,
// or a pattern of gen/route. The method "*" selects the GET operation. If several templates match, the one
// with the most literal segments applies.
func (d *Document) Operation(method, path string) (*Operation, bool) {
	if method == "*" {
		method = http.MethodGet
	}
	var best *Operation
	for _, op := range d.all {
		if op.Method == method && op.matches(path) && (best == nil || literals(op.Path) > literals(best.Path)) {
			best = op
		}
	}
	return best, best != nil
}

// matches compares path with the template segment by segment. For an engine or the object store, the last
// variable matches all remaining segments.
func (op *Operation) matches(path string) bool {
	want, given := strings.Split(op.Path, "/"), strings.Split(path, "/")
	for i, segment := range want {
		if i >= len(given) {
			return false
		}
		variable := strings.HasPrefix(segment, "{")
		if variable && i == len(want)-1 && op.several() {
			return true
		}
		if !variable && segment != given[i] || given[i] == "" && i > 0 {
			return false
		}
	}
	return len(want) == len(given)
}

func (op *Operation) several() bool {
	return strings.HasSuffix(op.Path, "{rest}") || strings.HasSuffix(op.Path, "{key}") && strings.HasPrefix(op.Path, "/api/blobs/")
}

func literals(path string) int { return strings.Count(path, "/") - strings.Count(path, "{") }

// Statuses returns the statuses that the operation declares, in order, without `default`.
func (op *Operation) Statuses() []int {
	var out []int
	for status := range object(op.node, "responses") {
		if n, err := strconv.Atoi(status); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// HasRequestHeader reports whether the operation describes a request header.
func (op *Operation) HasRequestHeader(name string) bool {
	list, _ := op.node["parameters"].([]any)
	return slices.ContainsFunc(list, func(one any) bool {
		node, _ := one.(map[string]any)
		node, _ = op.doc.resolve(node, "")
		return node["in"] == "header" && node["name"] == name
	})
}

// HasResponseHeader reports whether the operation describes the header for responses with the status.
func (op *Operation) HasResponseHeader(status int, name string) bool {
	node, _ := op.doc.resolve(object(object(op.node, "responses"), strconv.Itoa(status)), "")
	return object(object(node, "headers"), name) != nil
}

// object returns the member with the given name if it is an object, otherwise nil.
func object(in map[string]any, name string) map[string]any {
	out, _ := in[name].(map[string]any)
	return out
}

// escaped escapes a name for a JSON pointer in the fragment of a URL.
func escaped(name string) string {
	name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	return strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", " ", "%20", "*", "%2A").Replace(name)
}

// resolve follows references and returns the referenced node with its pointer.
func (d *Document) resolve(node map[string]any, pointer string) (map[string]any, string) {
	for {
		ref, ok := node["$ref"].(string)
		if !ok {
			return node, pointer
		}
		pointer = strings.TrimPrefix(ref, "#")
		node = d.root
		for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
			node = object(node, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
		}
	}
}
