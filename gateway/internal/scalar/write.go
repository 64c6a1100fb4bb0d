// Package scalar writes single values as the API contract defines: integers and floats as numbers (NaN and the
// infinities as strings), times in UTC with six decimals, enum values as lower-case words, bytes as base64, text as
// JSON strings.
//
// It also reads integers, map keys, times and enum words. Each reader accepts what the package writes. An integer may
// also have leading zeros and a sign, and a time may have any offset and number of decimals. A value outside the range
// of its kind is rejected.
package scalar

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// TimeLayout is the contract's time format: UTC, six decimal places, numeric offset.
const TimeLayout = "2006-01-02T15:04:05.000000+00:00"

const hexDigits = "0123456789abcdef"

// The range of a Timestamp: the seconds of 0001-01-01 and of 9999-12-31T23:59:59 UTC.
const (
	minSeconds = -62135596800
	maxSeconds = 253402300799
)

// Append writes v, a string, boolean or number of the given kind.
func Append(dst []byte, v protoreflect.Value, kind protoreflect.Kind) []byte {
	switch kind {
	case protoreflect.StringKind:
		return AppendString(dst, v.String())
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool())
	case protoreflect.FloatKind:
		return AppendFloat(dst, v.Float(), 32)
	case protoreflect.DoubleKind:
		return AppendFloat(dst, v.Float(), 64)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.AppendUint(dst, v.Uint(), 10)
	default:
		return strconv.AppendInt(dst, v.Int(), 10)
	}
}

// AppendFloat writes the shortest decimal number from which f can be read back. It writes NaN and the infinities as
// strings, because JSON has no such numbers.
func AppendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, bits)
}

// AppendBase64 writes bytes as a JSON string in standard base64.
func AppendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// AppendString writes s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		if b >= ' ' && b != '"' && b != '\\' && b != 0x7f {
			i++
			continue
		}
		dst = appendEscape(append(dst, s[start:i]...), b)
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
	}
}

// AppendTime writes a google.protobuf.Timestamp, truncated to microseconds.
func AppendTime(dst []byte, m protoreflect.Message) ([]byte, error) {
	fields := m.Descriptor().Fields()
	seconds := m.Get(fields.ByNumber(1)).Int()
	nanos := m.Get(fields.ByNumber(2)).Int()
	if seconds < minSeconds || seconds > maxSeconds || nanos < 0 || nanos >= 1e9 {
		return nil, fmt.Errorf("encode timestamp: %d s and %d ns are out of range", seconds, nanos)
	}
	dst = append(dst, '"')
	dst = time.Unix(seconds, nanos).UTC().AppendFormat(dst, TimeLayout)
	return append(dst, '"'), nil
}
