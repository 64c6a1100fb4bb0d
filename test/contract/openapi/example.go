package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
)

// Example returns a small body that the operation accepts, with only the required members. The value of a member is
// the schema's first example, its constant or its first enum value. If the schema has none of these, it is a short
// valid value. Example returns nil if the operation takes no JSON body. The entries of the parameter `with` override
// these values and add members. Their keys are paths of members without indices, for example `spec.name`.
func (op *Operation) Example(with map[string]any) ([]byte, error) {
	content := object(object(op.node, "requestBody"), "content")
	media := object(content, "application/json")
	if media == nil {
		return nil, nil
	}
	value, err := op.doc.example(object(media, "schema"), "", with)
	if err != nil {
		return nil, fmt.Errorf("example of %s %s: %w", op.Method, op.Path, err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("example of %s %s: %w", op.Method, op.Path, err)
	}
	return data, nil
}

func (d *Document) example(schema map[string]any, at string, with map[string]any) (any, error) {
	if given, ok := with[at]; ok {
		return given, nil
	}
	schema, _ = d.resolve(schema, "")
	if listed, ok := schema["examples"].([]any); ok && len(listed) > 0 {
		return listed[0], nil
	}
	if fixed, ok := schema["const"]; ok {
		return fixed, nil
	}
	if words, ok := schema["enum"].([]any); ok && len(words) > 0 {
		return words[0], nil
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		if options, ok := schema[word].([]any); ok && len(options) > 0 {
			first, _ := options[0].(map[string]any)
			return d.example(first, at, with)
		}
	}
	switch first(schema["type"]) {
	case "object":
		return d.exampleObject(schema, at, with)
	case "array":
		return d.exampleArray(schema, at, with)
	case "string":
		return text(schema)
	case "integer", "number":
		return least(schema), nil
	case "boolean":
		return false, nil
	default:
		return map[string]any{}, nil // any JSON value
	}
}

func (d *Document) exampleObject(schema map[string]any, at string, with map[string]any) (any, error) {
	out := map[string]any{}
	properties := object(schema, "properties")
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		inner := strings.TrimPrefix(at+"."+name, ".")
		wanted := slices.ContainsFunc(slices.Collect(maps.Keys(with)), func(path string) bool {
			return path == inner || strings.HasPrefix(path, inner+".")
		})
		if !slices.Contains(required, any(name)) && !wanted {
			continue
		}
		value, err := d.example(object(properties, name), inner, with)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = value
	}
	return out, nil
}

func (d *Document) exampleArray(schema map[string]any, at string, with map[string]any) (any, error) {
	out := []any{}
	n, _ := schema["minItems"].(json.Number)
	count, err := n.Int64()
	if n != "" && err != nil {
		return nil, fmt.Errorf("minItems: %w", err)
	}
	for range count {
		value, err := d.example(object(schema, "items"), at, with)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	return out, nil
}

// first returns the type in a schema, or the first type if the schema has several.
func first(typ any) any {
	if list, ok := typ.([]any); ok && len(list) > 0 {
		return list[0]
	}
	return typ
}

func least(schema map[string]any) any {
	if low, ok := schema["minimum"].(json.Number); ok && !strings.HasPrefix(string(low), "-") {
		return low
	}
	if low, ok := schema["exclusiveMinimum"].(json.Number); ok && !strings.HasPrefix(string(low), "-") {
		return low + "1"
	}
	return json.Number("0")
}

func text(schema map[string]any) (string, error) {
	if pattern, ok := schema["pattern"].(string); ok {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return "", fmt.Errorf("pattern: %w", err)
		}
		return matchingText(parsed), nil
	}
	switch schema["format"] {
	case "date-time":
		return "2026-11-21T03:00:00.123456+00:00", nil
	case "email":
		return "a@example.org", nil
	case "uri":
		return "https://example.org/", nil
	}
	low, _ := schema["minLength"].(json.Number)
	n, err := low.Int64()
	if low != "" && err != nil {
		return "", fmt.Errorf("minLength: %w", err)
	}
	return strings.Repeat("a", int(n)), nil
}

// matchingText returns a short text that matches a regular expression. The expression must not contain
// assertions.
func matchingText(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return string(re.Rune[0])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture, syntax.OpPlus:
		return matchingText(re.Sub[0])
	case syntax.OpRepeat:
		return strings.Repeat(matchingText(re.Sub[0]), re.Min)
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(matchingText(sub))
		}
		return b.String()
	case syntax.OpAlternate:
		return matchingText(re.Sub[0])
	default:
		return "" // optional parts and empty matches
	}
}
