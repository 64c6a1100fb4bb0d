package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// CheckResponse returns an error if the response differs from what the operation declares.
func (op *Operation) CheckResponse(status int, header http.Header, body []byte) error {
	if err := op.checkResponse(status, header, body); err != nil {
		return fmt.Errorf("%s %s (%s), status %d: %w", op.Method, op.Path, op.ID, status, err)
	}
	return nil
}

func (op *Operation) checkResponse(status int, header http.Header, body []byte) error {
	responses := object(op.node, "responses")
	name := strconv.Itoa(status)
	node := object(responses, name)
	if node == nil {
		name, node = "default", object(responses, "default")
	}
	if node == nil {
		return fmt.Errorf("the status is not declared; the declared statuses are %v", op.Statuses())
	}
	response, pointer := op.doc.resolve(node, op.pointer+"/responses/"+name)
	if err := op.checkHeaders(response, pointer, header); err != nil {
		return err
	}
	return op.checkBody(response, pointer, header.Get("Content-Type"), body)
}

func (op *Operation) checkHeaders(response map[string]any, pointer string, header http.Header) error {
	declared := object(response, "headers")
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		node, at := op.doc.resolve(object(declared, name), pointer+"/headers/"+escaped(name))
		values := header.Values(name)
		if required, _ := node["required"].(bool); required && len(values) == 0 {
			return fmt.Errorf("header %s is missing", name)
		}
		for _, value := range values {
			if err := op.doc.fits(at+"/schema", typed(object(node, "schema"), value)); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	return nil
}

// typed converts a header's value to a number if its schema is an integer.
func typed(schema map[string]any, value string) any {
	if schema["type"] == "integer" {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n
		}
	}
	return value
}

func (op *Operation) checkBody(response map[string]any, pointer, contentType string, body []byte) error {
	content := object(response, "content")
	switch {
	case len(content) == 0 && len(body) > 0:
		return fmt.Errorf("no body is declared, but the response has a body of %d bytes", len(body))
	case len(content) == 0:
		return nil
	}
	declared, ok := media(content, contentType)
	if !ok {
		return fmt.Errorf("content type %q is not one of %v", contentType, slices.Sorted(maps.Keys(content)))
	}
	if declared != "application/json" || object(content, declared)["schema"] == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return op.doc.fits(pointer+"/content/"+escaped(declared)+"/schema", value)
}

// media returns the declared media type that matches a content type.
func media(content map[string]any, contentType string) (string, bool) {
	if _, any := content["*/*"]; any {
		return "*/*", true
	}
	typ, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", false
	}
	_, ok := content[typ]
	return typ, ok
}

func (d *Document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.compiler.Compile(location + "#" + pointer)
}

// fits validates a value against the schema at a JSON pointer.
func (d *Document) fits(pointer string, value any) error {
	schema, err := d.schema(pointer)
	if err != nil {
		return fmt.Errorf("compile the schema at %s: %w", pointer, err)
	}
	err = schema.Validate(value)
	var wrong *jsonschema.ValidationError
	if !errors.As(err, &wrong) {
		return err
	}
	return errors.New(strings.Join(leaves(wrong, message.NewPrinter(language.English)), "; "))
}

// leaves returns the innermost errors, each with the location of the invalid value.
func leaves(e *jsonschema.ValidationError, in *message.Printer) []string {
	if len(e.Causes) == 0 {
		at := "/" + strings.Join(e.InstanceLocation, "/")
		return []string{at + ": " + e.ErrorKind.LocalizedString(in)}
	}
	var out []string
	for _, cause := range e.Causes {
		out = append(out, leaves(cause, in)...)
	}
	return out
}
