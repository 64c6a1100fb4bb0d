package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// RequestExample returns the example of the JSON body that the document shows, or nil if the operation takes no JSON body.
func (op *Operation) RequestExample() ([]byte, error) {
	media := object(object(object(op.node, "requestBody"), "content"), "application/json")
	if media == nil {
		return nil, nil
	}
	data, err := json.Marshal(media["example"])
	if err != nil {
		return nil, fmt.Errorf("example of %s %s: %w", op.Method, op.Path, err)
	}
	return data, nil
}

// CheckExamples returns the number of bodies that must have an example: the request body and the body of each success,
// in each media type. faults names those without an example, and those whose schema does not accept it.
func (op *Operation) CheckExamples() (checked int, faults []string) {
	check := func(name, pointer string, content map[string]any) {
		for _, media := range slices.Sorted(maps.Keys(content)) {
			checked++
			if fault := op.exampleFault(pointer+"/content/"+escaped(media), object(content, media)); fault != "" {
				faults = append(faults, fmt.Sprintf("%s %s: %s", name, media, fault))
			}
		}
	}
	check("requestBody", op.pointer+"/requestBody", object(object(op.node, "requestBody"), "content"))
	responses := object(op.node, "responses")
	for _, name := range slices.Sorted(maps.Keys(responses)) {
		if status, err := strconv.Atoi(name); err != nil || status < http.StatusBadRequest {
			node, pointer := op.doc.resolve(object(responses, name), op.pointer+"/responses/"+name)
			check(name, pointer, object(node, "content"))
		}
	}
	return checked, faults
}

func (op *Operation) exampleFault(pointer string, media map[string]any) string {
	value, ok := media["example"]
	if !ok {
		return "the example is missing"
	}
	if media["schema"] == nil {
		return ""
	}
	if err := op.doc.fits(pointer+"/schema", value); err != nil {
		return "the example is invalid: " + err.Error()
	}
	return ""
}
