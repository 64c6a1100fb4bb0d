package restjson

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// none is the answer of a value that a fault was noted for.
func none(err error) (protoreflect.Value, bool, error) { return protoreflect.Value{}, false, err }

func (r *reader) str() (protoreflect.Value, bool, error) {
	if r.peek() != '"' {
		return none(r.wrong(fault.TypeStringType, "Input should be a valid string"))
	}
	s, err := r.text()
	if err != nil {
		return none(err)
	}
	if strings.IndexByte(s, 0) >= 0 {
		return none(r.fault(fault.TypeValue, "String should not contain NUL"))
	}
	return protoreflect.ValueOfString(s), true, nil
}

func (r *reader) base64() (protoreflect.Value, bool, error) {
	if r.peek() != '"' {
		return none(r.wrong(fault.TypeStringType, "Input should be a valid string"))
	}
	s, err := r.text()
	if err != nil {
		return none(err)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return none(r.fault(fault.TypeValue, "Input should be valid base64"))
	}
	return protoreflect.ValueOfBytes(b), true, nil
}

func (r *reader) boolean() (protoreflect.Value, bool, error) {
	switch r.peek() {
	case 't':
		return protoreflect.ValueOfBool(true), true, r.word("true")
	case 'f':
		return protoreflect.ValueOfBool(false), true, r.word("false")
	default:
		return none(r.wrong(fault.TypeBoolType, "Input should be a valid boolean"))
	}
}

func (r *reader) enum(e *Enum) (protoreflect.Value, bool, error) {
	if r.peek() != '"' {
		return none(r.wrong(fault.TypeEnum, "Input should be "+e.Expected()))
	}
	word, err := r.text()
	if err != nil {
		return none(err)
	}
	n, ok := e.Number(word)
	if !ok {
		return none(r.fault(fault.TypeEnum, "Input should be "+e.Expected()))
	}
	return protoreflect.ValueOfEnum(n), true, nil
}

// float reads a number, or one of the three strings that stand for what JSON has no number for.
func (r *reader) float(kind protoreflect.Kind) (protoreflect.Value, bool, error) {
	var text string
	var err error
	switch b := r.peek(); {
	case b == '"':
		if text, err = r.text(); err != nil {
			return none(err)
		}
		if text != "NaN" && text != "Infinity" && text != "-Infinity" {
			return none(r.fault(fault.TypeFloatType, "Input should be a valid number"))
		}
	case b == '-' || b >= '0' && b <= '9':
		if text, err = r.number(); err != nil {
			return none(err)
		}
	default:
		return none(r.wrong(fault.TypeFloatType, "Input should be a valid number"))
	}
	bits := 64
	if kind == protoreflect.FloatKind {
		bits = 32
	}
	f, err := strconv.ParseFloat(text, bits)
	switch {
	case err != nil:
		return none(r.fault(fault.TypeFinite, "Input should be a finite number"))
	case bits == 32:
		return protoreflect.ValueOfFloat32(float32(f)), true, nil
	default:
		return protoreflect.ValueOfFloat64(f), true, nil
	}
}

func (r *reader) integer(kind protoreflect.Kind) (protoreflect.Value, bool, error) {
	const msg = "Input should be a valid integer"
	if b := r.peek(); b != '-' && (b < '0' || b > '9') {
		return none(r.wrong(fault.TypeIntType, msg))
	}
	text, err := r.number()
	if err != nil {
		return none(err)
	}
	if strings.ContainsAny(text, ".eE") {
		return none(r.fault(fault.TypeIntType, msg))
	}
	v, ok := Integer(kind, text)
	if !ok {
		return none(r.fault(fault.TypeIntParsing, "Input should be an integer that fits its range"))
	}
	return v, true, nil
}

// Integer reads the decimal digits of an integer of kind, and answers false where they do not fit it.
func Integer(kind protoreflect.Kind, text string) (protoreflect.Value, bool) {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfInt32(int32(n)), err == nil
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		n, err := strconv.ParseInt(text, 10, 64)
		return protoreflect.ValueOfInt64(n), err == nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		return protoreflect.ValueOfUint32(uint32(n)), err == nil
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		n, err := strconv.ParseUint(text, 10, 64)
		return protoreflect.ValueOfUint64(n), err == nil
	default:
		return protoreflect.Value{}, false
	}
}

func mapKey(kind protoreflect.Kind, name string) (protoreflect.MapKey, bool) {
	switch kind {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(name).MapKey(), strings.IndexByte(name, 0) < 0
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(name == "true").MapKey(), name == "true" || name == "false"
	default:
		v, ok := Integer(kind, name)
		if !ok || v.String() != name {
			return protoreflect.MapKey{}, false
		}
		return v.MapKey(), true
	}
}

func (r *reader) time(m protoreflect.Message) (bool, error) {
	const msg = "Input should be a time with an offset, such as 2026-11-21T03:00:00.123456+00:00"
	if r.peek() != '"' {
		return false, r.wrong(fault.TypeDatetime, msg)
	}
	s, err := r.text()
	if err != nil {
		return false, err
	}
	t, ok := Time(s)
	if !ok {
		return false, r.fault(fault.TypeDatetime, msg)
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByNumber(1), protoreflect.ValueOfInt64(t.Unix()))
	m.Set(fields.ByNumber(2), protoreflect.ValueOfInt32(int32(t.Nanosecond())))
	return true, nil
}

// Time reads an ISO 8601 time with an offset: RFC 3339 to the letter, which time.Parse alone is not.
func Time(s string) (time.Time, bool) {
	const shape = "0000-00-00T00:00:00"
	if len(s) < len(shape)+1 || strings.Contains(s, ",") {
		return time.Time{}, false
	}
	for i, b := range []byte(shape) {
		if b == '0' && (s[i] < '0' || s[i] > '9') || b != '0' && s[i] != b {
			return time.Time{}, false
		}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !offset(s) || t.Unix() < minSeconds || t.Unix() > maxSeconds {
		return time.Time{}, false
	}
	return t.UTC(), true
}

// offset reports whether the offset at the end of a time is one: time.Parse takes +24:00 and +00:60 too.
func offset(s string) bool {
	n := len(s)
	return s[n-1] == 'Z' || s[n-5:n-3] <= "23" && s[n-2:] <= "59"
}

// finite reports whether a number's text fits a float64, which is all that JSON readers agree on.
func finite(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsInf(f, 0)
}
