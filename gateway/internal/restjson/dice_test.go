package restjson_test

import (
	"math"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
)

func isRaw(fd protoreflect.FieldDescriptor) bool {
	opts, ok := fd.Options().(*descriptorpb.FieldOptions)
	return ok && fd.Kind() == protoreflect.BytesKind && proto.GetExtension(opts, optionsv1.E_RawJson).(bool)
}

// messageGenerator creates random messages, with values that the API contract can represent.
type messageGenerator struct{ *rand.Rand }

func (d messageGenerator) message(m protoreflect.Message, depth int) {
	if m.Descriptor().FullName() == "google.protobuf.Timestamp" {
		m.Set(m.Descriptor().Fields().ByNumber(1), protoreflect.ValueOfInt64(d.Int64N(253402300800+62135596800)-62135596800))
		m.Set(m.Descriptor().Fields().ByNumber(2), protoreflect.ValueOfInt32(d.Int32N(1_000_000)*1000))
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		needed := fd.Kind() == protoreflect.EnumKind && !fd.HasPresence() && !fd.IsList()
		if !needed && (d.IntN(3) == 0 || fd.ContainingOneof() != nil && m.WhichOneof(fd.ContainingOneof()) != nil) {
			continue
		}
		d.field(m, fd, depth)
	}
}

func (d messageGenerator) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int) {
	switch {
	case fd.IsMap():
		for range d.IntN(4) {
			v := m.Mutable(fd).Map().NewValue()
			if fd.MapValue().Message() != nil {
				d.message(v.Message(), depth-1)
			} else {
				v = d.scalar(fd.MapValue(), isRaw(fd))
			}
			m.Mutable(fd).Map().Set(d.scalar(fd.MapKey(), false).MapKey(), v)
		}
	case fd.IsList():
		for range d.IntN(4) {
			v := m.Mutable(fd).List().NewElement()
			if fd.Message() != nil {
				d.message(v.Message(), depth-1)
			} else {
				v = d.scalar(fd, isRaw(fd))
			}
			m.Mutable(fd).List().Append(v)
		}
	case fd.Message() != nil:
		if depth > 0 {
			d.message(m.Mutable(fd).Message(), depth-1)
		}
	default:
		m.Set(fd, d.scalar(fd, isRaw(fd)))
	}
}

func (d messageGenerator) scalar(fd protoreflect.FieldDescriptor, raw bool) protoreflect.Value {
	pick := d.IntN
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(d.text())
	case protoreflect.BytesKind:
		if raw {
			return protoreflect.ValueOfBytes([]byte(d.value()))
		}
		return protoreflect.ValueOfBytes([]byte(d.text()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(pick(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(1 + pick(fd.Enum().Values().Len()-1)).Number())
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32([]float32{0, -1.5, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.NaN()), float32(math.Inf(-1)), d.Float32()}[pick(7)])
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64([]float64{0, -1.5, math.MaxFloat64, 5e-324, math.NaN(), math.Inf(1), d.NormFloat64() * 1e9}[pick(7)])
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32([]int32{0, math.MaxInt32, math.MinInt32, d.Int32()}[pick(4)])
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32([]uint32{0, math.MaxUint32, d.Uint32()}[pick(3)])
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64([]uint64{0, math.MaxUint64, 1<<53 + 1, d.Uint64()}[pick(4)])
	default:
		return protoreflect.ValueOfInt64([]int64{0, math.MaxInt64, math.MinInt64, 1<<53 + 1, d.Int64()}[pick(5)])
	}
}

// text returns a random string of unusual characters, without NUL.
func (d messageGenerator) text() string {
	letters := []rune("aZ0 \t\n\r\"\\/<>&'\x01\x1f\x7f\u0080éß€\u2028\u2029\ufeff\ufffd😀\U0010ffff")
	var b strings.Builder
	for range d.IntN(12) {
		b.WriteRune(letters[d.IntN(len(letters))])
	}
	return b.String()
}

// value returns a random JSON value other than null, because a raw null means unset.
func (d messageGenerator) value() string {
	for {
		if v := d.json(3); v != "null" {
			return v
		}
	}
}

// json returns a compact JSON value without repeated names.
func (d messageGenerator) json(depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch d.IntN(kinds) {
	case 0:
		return []string{"null", "true", "false"}[d.IntN(3)]
	case 1:
		return []string{"0", "-0", "1.50", "1e2", "9007199254740993", "-1E-7", "123456789012345678901234567890"}[d.IntN(7)]
	case 2:
		return `"text"`
	case 3:
		return `"\u00e9\n\ud83d\ude00"`
	case 4:
		parts := make([]string, d.IntN(4))
		for i := range parts {
			parts[i] = d.json(depth - 1)
		}
		return "[" + strings.Join(parts, ",") + "]"
	default:
		parts := make([]string, d.IntN(4))
		for i := range parts {
			parts[i] = `"` + string(rune('a'+i)) + `":` + d.json(depth-1)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
}
