package restjson

import (
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
)

// appendAny writes the value that a generated handler passes: a message, or the field of the message that
// `response_body` selects. An empty list is written as []. A []byte is always raw JSON.
func (c *Codec) appendAny(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case proto.Message:
		return c.appendWhole(dst, v)
	case []byte:
		return appendRaw(dst, v)
	case string:
		return scalar.AppendString(dst, v), nil
	case protoreflect.Enum:
		return c.appendValue(dst, protoreflect.ValueOfEnum(v.Number()),
			&value{kind: protoreflect.EnumKind, enum: scalar.NewEnum(v.Descriptor())})
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Slice:
		return c.appendSlice(dst, rv)
	case reflect.Map:
		return c.appendGoMap(dst, rv)
	case reflect.Bool:
		return scalar.Append(dst, protoreflect.ValueOf(rv.Bool()), protoreflect.BoolKind), nil
	case reflect.Int32, reflect.Int64:
		return scalar.Append(dst, protoreflect.ValueOf(rv.Int()), protoreflect.Int64Kind), nil
	case reflect.Uint32, reflect.Uint64:
		return scalar.Append(dst, protoreflect.ValueOf(rv.Uint()), protoreflect.Uint64Kind), nil
	case reflect.Float64:
		return scalar.AppendFloat(dst, rv.Float(), 64), nil
	default:
		return nil, fmt.Errorf("encode %T: the API has no JSON form for this type", v)
	}
}

// appendWhole writes m. If m is nil because the field that `response_body` selects is unset, it writes null.
func (c *Codec) appendWhole(dst []byte, m proto.Message) ([]byte, error) {
	if r := m.ProtoReflect(); r.IsValid() {
		return c.appendMessage(dst, r)
	}
	return append(dst, "null"...), nil
}

func (c *Codec) appendSlice(dst []byte, rv reflect.Value) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	for i := range rv.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = c.appendAny(dst, rv.Index(i).Interface()); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func (c *Codec) appendGoMap(dst []byte, rv reflect.Value) ([]byte, error) {
	byKey := make(map[string]reflect.Value, rv.Len())
	keys := make([]string, 0, rv.Len())
	for it := rv.MapRange(); it.Next(); {
		key := fmt.Sprint(it.Key().Interface())
		keys = append(keys, key)
		byKey[key] = it.Value()
	}
	slices.Sort(keys)
	var err error
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(scalar.AppendString(dst, key), ':')
		if dst, err = c.appendAny(dst, byKey[key].Interface()); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}
