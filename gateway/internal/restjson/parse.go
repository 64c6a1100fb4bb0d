package restjson

import (
	"encoding/base64"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/timestamp"
)

// none builds the results of a method that has read no valid value. Its error is nil if the reader can continue after
// the fault.
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

func (r *reader) enum(e *scalar.Enum) (protoreflect.Value, bool, error) {
	if r.peek() != '"' {
		return none(r.wrong(fault.TypeEnum, e.Expected()))
	}
	word, err := r.text()
	if err != nil {
		return none(err)
	}
	n, ok := e.Number(word)
	if !ok {
		return none(r.fault(fault.TypeEnum, e.Expected()))
	}
	return protoreflect.ValueOfEnum(n), true, nil
}

// float reads a number, or one of the strings NaN, Infinity and -Infinity, because JSON has no such numbers.
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
	v, ok := scalar.Integer(kind, text)
	if !ok {
		return none(r.fault(fault.TypeIntParsing, "Input should be an integer "+scalar.Range(kind)))
	}
	return v, true, nil
}

func (r *reader) time(m protoreflect.Message) (bool, error) {
	const msg = "Input should be a time with an offset, such as " + timestamp.Example
	if r.peek() != '"' {
		return false, r.wrong(fault.TypeDatetime, msg)
	}
	s, err := r.text()
	if err != nil {
		return false, err
	}
	t, ok := scalar.Time(s)
	if !ok {
		return false, r.fault(fault.TypeDatetime, msg)
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByNumber(1), protoreflect.ValueOfInt64(t.Unix()))
	m.Set(fields.ByNumber(2), protoreflect.ValueOfInt32(int32(t.Nanosecond())))
	return true, nil
}
