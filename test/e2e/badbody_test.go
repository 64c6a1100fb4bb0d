package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/signalbox-dev/signalbox/gen/route"
	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
)

// badBody is a body that a route rejects.
type badBody struct {
	name string
	body string
	// loc is the location of the error and typ its type. typ is empty if the type may vary.
	loc []any
	typ string
}

// invalidObjects returns bodies that are not a valid object for any route.
func invalidObjects() []badBody {
	deep := `{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`
	return []badBody{
		{"not JSON", `{"a":`, []any{"body", 5}, "json_invalid"},
		{"text", `hello`, nil, "json_invalid"},
		{"an array", `[]`, []any{"body"}, "dict_type"},
		{"a string", `"x"`, []any{"body"}, "dict_type"},
		{"null", `null`, []any{"body"}, "dict_type"},
		{"an unknown field", `{"no_such_field": 1}`, []any{"body", "no_such_field"}, "extra_forbidden"},
		{"trailing garbage", `{} x`, []any{"body", 3}, "json_invalid"},
		{"a second value", `{}{}`, []any{"body", 2}, "json_invalid"},
		{"deep nesting", deep, nil, "json_invalid"},
		{"bad UTF-8", "{\"x\": \"\xff\"}", nil, "json_invalid"},
		{"a duplicate name", `{"no_such_field": 1, "no_such_field": 2}`, []any{"body", "no_such_field"}, ""},
	}
}

// inputOf returns the request message of an RPC route.
func inputOf(t *testing.T, rt route.Route) protoreflect.MessageDescriptor {
	t.Helper()
	service, method, _ := strings.Cut(rt.RPC, "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	require.NoError(t, err)
	return d.(protoreflect.MethodDescriptor).Input()
}

// invalidFields returns bad bodies derived from the fields of a message and its nested messages: wrong types, and
// duplicate and missing fields.
func invalidFields(rt route.Route, m protoreflect.MessageDescriptor) []badBody {
	w := &badBodyCollector{}
	w.message(rt, m, nil, func(inner string) string { return inner })
	return w.out
}

// badBodyCollector collects the bad bodies of a message and of the messages in its fields.
type badBodyCollector struct{ out []badBody }

func quoted(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// message adds the bad bodies of a message at a location. The function `wrap` turns the JSON of such a message into
// the complete body of a request.
func (w *badBodyCollector) message(rt route.Route, m protoreflect.MessageDescriptor, at []any, wrap func(string) string) {
	place := func(name string) []any { return append(append([]any{"body"}, at...), name) }
	add := func(what, name, inner, typ string) {
		words := append(slices.Clone(at), name, what)
		w.out = append(w.out, badBody{strings.Trim(strings.ReplaceAll(string(must(words)), `"`, ""), "[]"), wrap(inner), place(name), typ})
	}
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		name := string(fd.Name())
		if at == nil && strings.Contains(rt.Pattern, "{"+name+"}") {
			add("in the path", name, `{`+quoted(name)+`: "x"}`, "extra_forbidden")
			continue
		}
		if camelCase := camel(name); camelCase != name {
			add("camel case", camelCase, `{`+quoted(camelCase)+`: "x"}`, "extra_forbidden")
		}
		if required(fd) {
			add("missing", name, `{}`, "missing")
		}
		if raw, _ := proto.GetExtension(fd.Options(), optionsv1.E_RawJson).(bool); raw {
			add("twice", name, `{`+quoted(name)+`: {}, `+quoted(name)+`: {}}`, "duplicate_key")
			continue
		}
		wrong, typ := invalidValue(fd)
		add("type", name, `{`+quoted(name)+`: `+wrong+`}`, typ)
		add("twice", name, `{`+quoted(name)+`: null, `+quoted(name)+`: null}`, "duplicate_key")
		w.nested(rt, fd, at, wrap)
	}
}

// nested adds the bad bodies of the message in a field.
func (w *badBodyCollector) nested(rt route.Route, fd protoreflect.FieldDescriptor, at []any, wrap func(string) string) {
	if fd.IsMap() || fd.Message() == nil || strings.HasPrefix(string(fd.Message().FullName()), "google.") {
		return
	}
	name := string(fd.Name())
	if fd.IsList() {
		w.message(rt, fd.Message(), append(slices.Clone(at), name, 0), func(inner string) string { return wrap(`{` + quoted(name) + `: [` + inner + `]}`) })
		return
	}
	w.message(rt, fd.Message(), append(slices.Clone(at), name), func(inner string) string { return wrap(`{` + quoted(name) + `: ` + inner + `}`) })
}

// invalidValue returns a value that is invalid for a field, and the type of the expected error.
func invalidValue(fd protoreflect.FieldDescriptor) (value, typ string) {
	switch {
	case fd.IsMap():
		return `[]`, "dict_type"
	case fd.IsList():
		return `{}`, "list_type"
	}
	switch fd.Kind() {
	case protoreflect.StringKind:
		return `7`, "string_type"
	case protoreflect.BoolKind:
		return `"true"`, "bool_type"
	case protoreflect.EnumKind:
		return `"no such word"`, "enum"
	case protoreflect.MessageKind:
		if fd.Message().FullName() == "google.protobuf.Timestamp" {
			return `[]`, "datetime_parsing"
		}
		return `[]`, "dict_type"
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return `"much"`, "float_type"
	default:
		return `"7"`, "int_type"
	}
}

// required reports whether a message is rejected if it lacks the field.
func required(fd protoreflect.FieldDescriptor) bool {
	rules, _ := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules)
	if rules == nil || fd.HasOptionalKeyword() {
		return false
	}
	return rules.GetRequired() || rules.GetString().GetMinLen() > 0 || rules.GetRepeated().GetMinItems() > 0 || len(rules.GetEnum().GetNotIn()) > 0
}

func camel(name string) string {
	var b strings.Builder
	up := false
	for _, r := range name {
		if r == '_' {
			up = true
			continue
		}
		if up {
			b.WriteString(strings.ToUpper(string(r)))
		} else {
			b.WriteRune(r)
		}
		up = false
	}
	return b.String()
}

func must(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// ingestBody describes the body of an ingest route: a valid value for each field, and the required fields.
type ingestBody struct {
	good     map[string]string
	required []string
}

// ingestBodies returns the bodies that the specification defines.
func ingestBodies(run string) map[string]ingestBody {
	id := quoted(run)
	ts := `"2026-11-21T03:00:00+00:00"`
	return map[string]ingestBody{
		"lifecycle": {map[string]string{"run_id": id, "event": `"starting"`, "ts": ts}, []string{"run_id", "event", "ts"}},
		"metrics": {
			map[string]string{"run_id": id, "points": `[{"key": "a", "step": 1, "value": 1.5, "ts": ` + ts + `}]`},
			[]string{"run_id", "points"},
		},
		"hparams":    {map[string]string{"run_id": id, "params": `{"a.b": 1}`}, []string{"run_id", "params"}},
		"validation": {map[string]string{"run_id": id, "step": `1`, "samples": `[]`}, []string{"run_id", "step"}},
		"logs":       {map[string]string{"run_id": id, "chunks": `["x"]`}, []string{"run_id", "chunks"}},
		"artifact": {
			map[string]string{"run_id": id, "kind": `"checkpoint"`, "path": `"x"`, "format": `"gguf"`},
			[]string{"run_id", "kind", "path", "format"},
		},
		"hardware":          {map[string]string{"run_id": id}, []string{"run_id"}},
		"environment":       {map[string]string{"run_id": id}, []string{"run_id"}},
		"environment/nodes": {map[string]string{"run_id": id}, []string{"run_id"}},
		"benchmark":         {map[string]string{"run_id": id}, []string{"run_id"}},
		"signals/ack":       {map[string]string{"run_id": id, "id": `"` + missingID("sig") + `"`}, []string{"run_id", "id"}},
	}
}

// bad returns the bodies that an ingest route rejects.
func (b ingestBody) bad() []badBody {
	var out []badBody
	object := func(skip, extra string) string {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(b.good)) {
			if name != skip {
				parts = append(parts, quoted(name)+": "+b.good[name])
			}
		}
		if extra != "" {
			parts = append(parts, extra)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	for _, name := range b.required {
		out = append(out, badBody{name + " missing", object(name, ""), []any{"body", name}, "missing"})
	}
	for name, value := range b.good {
		wrong := `7`
		if value[0] >= '0' && value[0] <= '9' {
			wrong = `"7"`
		}
		out = append(out,
			badBody{name + " type", object(name, quoted(name)+": "+wrong), []any{"body", name}, ""},
			badBody{name + " twice", object("", quoted(name)+": "+value), []any{"body", name}, "duplicate_key"})
		if camelCase := camel(name); camelCase != name {
			out = append(out, badBody{name + " in camel case", object("", quoted(camelCase)+": "+value), []any{"body", camelCase}, "extra_forbidden"})
		}
	}
	return out
}
