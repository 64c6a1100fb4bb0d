package scalar

import (
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/platform/timestamp"
)

// Integer parses text as a decimal integer of the given kind. It returns false if text is invalid or out of range.
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

// Range describes the integers of a kind, for error messages.
func Range(kind protoreflect.Kind) string {
	var low int64
	var high uint64
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		low, high = math.MinInt32, math.MaxInt32
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		high = math.MaxUint32
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		high = math.MaxUint64
	default:
		low, high = math.MinInt64, math.MaxInt64
	}
	return "from " + strconv.FormatInt(low, 10) + " to " + strconv.FormatUint(high, 10)
}

// MapKey parses the name of a JSON member as the key of a map. It accepts a key only in the form in which the API
// writes it; otherwise one object could contain the same key in two forms.
func MapKey(kind protoreflect.Kind, name string) (protoreflect.MapKey, bool) {
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

// Time parses a time in the range of a Timestamp, in a form that package timestamp accepts.
func Time(s string) (time.Time, bool) {
	t, ok := timestamp.Parse(s)
	if !ok || t.Unix() < minSeconds || t.Unix() > maxSeconds {
		return time.Time{}, false
	}
	return t, true
}

// Finite reports whether the number in the given text is in the range of a float64, which all JSON parsers support.
func Finite(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsInf(f, 0)
}
