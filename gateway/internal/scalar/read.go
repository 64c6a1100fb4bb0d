package scalar

import (
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
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

// Time parses an RFC 3339 time in the range of a Timestamp, with T and Z in upper case and without leap seconds.
// time.Parse alone accepts more.
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

// offset reports whether the offset at the end of a time is valid; time.Parse also accepts +24:00 and +00:60.
func offset(s string) bool {
	n := len(s)
	return s[n-1] == 'Z' || s[n-5:n-3] <= "23" && s[n-2:] <= "59"
}

// Finite reports whether the number in the given text is in the range of a float64, which all JSON parsers support.
func Finite(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsInf(f, 0)
}
