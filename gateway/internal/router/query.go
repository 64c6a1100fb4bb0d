package router

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/timestamp"
)

const maxQueryFaults = 50

// Query checks a query against the fields that it may set and returns it in the format that the
// generated handlers parse: enums by their proto names, times by RFC 3339. An unknown name, a repeated name of a field
// that is not a list, and a value of the wrong type are faults.
func (s *Params) Query(raw string) (url.Values, *fault.Error) {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "Query should be name=value pairs joined by &", "query"))
	}
	out := make(url.Values, len(given))
	var faults []fault.Field
	for _, name := range slices.Sorted(maps.Keys(given)) {
		p, ok := s.query[name]
		if !ok {
			faults = append(faults, fault.At(fault.TypeExtra, "Extra inputs are not permitted", "query", clip(name)))
			continue
		}
		words, bad := p.read(name, given[name])
		out[name] = words
		faults = append(faults, bad...)
	}
	if len(faults) > 0 {
		return nil, fault.InvalidFields(faults[:min(len(faults), maxQueryFaults)]...)
	}
	return out, nil
}

func (p *parameter) read(name string, values []string) (words []string, faults []fault.Field) {
	if len(values) > 1 && !p.desc.IsList() {
		return nil, []fault.Field{fault.At("duplicate_key", "Name given more than once", "query", name)}
	}
	for i, value := range values {
		word, typ, msg := p.word(value)
		switch {
		case typ == "":
			words = append(words, word)
		case p.desc.IsList():
			faults = append(faults, fault.At(typ, msg, "query", name, i))
		default:
			faults = append(faults, fault.At(typ, msg, "query", name))
		}
	}
	return words, faults
}

// word returns a value in the format that the generated handlers parse, or the type and message of its fault.
func (p *parameter) word(value string) (word, typ, msg string) {
	switch kind := p.desc.Kind(); kind {
	case protoreflect.StringKind:
		if !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0 {
			return "", fault.TypeStringType, "Input should be a valid string"
		}
		return value, "", ""
	case protoreflect.BoolKind:
		if value != "true" && value != "false" {
			return "", fault.TypeBoolParsing, "Input should be true or false"
		}
		return value, "", ""
	case protoreflect.EnumKind:
		n, ok := p.enum.Number(value)
		if !ok {
			return "", fault.TypeEnum, p.enum.Expected()
		}
		return string(p.desc.Enum().Values().ByNumber(n).Name()), "", ""
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if !number(value, kind) {
			return "", fault.TypeFloatParsing, "Input should be a valid number"
		}
		return value, "", ""
	case protoreflect.MessageKind:
		t, ok := scalar.Time(value)
		if !ok {
			return "", fault.TypeDatetime, "Input should be a time with an offset, such as " + timestamp.Example
		}
		return t.Format(time.RFC3339Nano), "", ""
	default:
		v, ok := scalar.Integer(kind, value)
		if !ok {
			return "", fault.TypeIntParsing, "Input should be a valid integer"
		}
		return v.String(), "", ""
	}
}

// number reports whether the value is a finite decimal number; ParseFloat alone also accepts hex and "inf".
func number(value string, kind protoreflect.Kind) bool {
	bits := 64
	if kind == protoreflect.FloatKind {
		bits = 32
	}
	if strings.Trim(value, "0123456789+-.eE") != "" {
		return false
	}
	_, err := strconv.ParseFloat(value, bits)
	return err == nil
}

// clip shortens a name that the client sent, so that it can be quoted in a response.
func clip(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	if runes := []rune(name); len(runes) > 64 {
		return string(runes[:64]) + "…"
	}
	return name
}
