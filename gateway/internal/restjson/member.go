package restjson

import (
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
)

// member is how the Go struct of a generated message stores a field. Reading the struct is several times as fast as the reflection
// of protobuf, which matters for lists of thousands of messages.
type member struct {
	at   int // index in the struct
	kind memberKind
}

type memberKind int

const (
	other    memberKind = iota // read by the reflection of protobuf
	basic                      // a number, string or boolean that always has a value
	pointer                    // a pointer to such a value; nil if the field is unset
	message                    // a pointer to the struct of a message; nil if the field is unset
	messages                   // a slice of such pointers
)

// findMembers finds the members of the fields in the Go type of a message. It finds none if the message has no generated type.
func (p *plan) findMembers(md protoreflect.MessageDescriptor) {
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
	if err != nil || mt.Descriptor() != md {
		return
	}
	typ := reflect.TypeOf(mt.Zero().Interface())
	if typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		return
	}
	at := map[string]int{}
	for i := range typ.Elem().NumField() {
		for part := range strings.SplitSeq(typ.Elem().Field(i).Tag.Get("protobuf"), ",") {
			if name, ok := strings.CutPrefix(part, "name="); ok {
				at[name] = i
			}
		}
	}
	for _, f := range p.fields {
		i, ok := at[f.name]
		if ok && f.desc.ContainingOneof() == nil || ok && f.desc.HasOptionalKeyword() {
			f.member = member{at: i, kind: kindOf(typ.Elem().Field(i).Type, f)}
		}
	}
	p.typ = typ
}

func kindOf(typ reflect.Type, f *field) memberKind {
	isMessage := f.value.kind == protoreflect.MessageKind
	isScalar := !isMessage && f.value.enum == nil && f.value.kind != protoreflect.BytesKind && f.value.kind != protoreflect.GroupKind
	switch {
	case f.form == dict:
	case f.form == list && isMessage && typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Pointer:
		return messages
	case f.form == list:
	case isMessage && typ.Kind() == reflect.Pointer:
		return message
	case isScalar && f.form == optional && typ.Kind() == reflect.Pointer:
		return pointer
	case isScalar && f.form == plain && typ.Kind() != reflect.Pointer:
		return basic
	}
	return other
}

// appendStruct writes the message in a struct of the plan's type.
func (c *Codec) appendStruct(dst []byte, p *plan, v reflect.Value) ([]byte, error) {
	var err error
	dst = append(dst, '{')
	for i, f := range p.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = c.appendMember(append(dst, f.label...), v, f); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (c *Codec) appendMember(dst []byte, v reflect.Value, f *field) ([]byte, error) {
	switch f.member.kind {
	case basic:
		return appendBasic(dst, v.Field(f.member.at), f.value.kind), nil
	case pointer:
		at := v.Field(f.member.at)
		if at.IsNil() {
			return append(dst, "null"...), nil
		}
		return appendBasic(dst, at.Elem(), f.value.kind), nil
	case message:
		at := v.Field(f.member.at)
		if at.IsNil() {
			return append(dst, "null"...), nil
		}
		return c.appendPointer(dst, c.planOf(f.desc.Message()), at)
	case messages:
		return c.appendPointers(dst, c.planOf(f.desc.Message()), v.Field(f.member.at))
	case other:
	}
	return c.appendField(dst, reflected(v.Addr()), f)
}

func (c *Codec) appendPointers(dst []byte, p *plan, all reflect.Value) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	begun, n := len(dst), all.Len()
	for i := range n {
		if i > 0 {
			dst = reserve(append(dst, ','), begun, i, n)
		}
		if dst, err = c.appendPointer(dst, p, all.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// appendPointer writes the message to which v points.
func (c *Codec) appendPointer(dst []byte, p *plan, v reflect.Value) ([]byte, error) {
	if p.time || v.Type() != p.typ || v.IsNil() {
		return c.appendReflected(dst, p, reflected(v))
	}
	return c.appendStruct(dst, p, v.Elem())
}

func reflected(v reflect.Value) protoreflect.Message {
	return v.Interface().(proto.Message).ProtoReflect()
}

// appendBasic writes a number, string or boolean.
func appendBasic(dst []byte, v reflect.Value, kind protoreflect.Kind) []byte {
	switch kind {
	case protoreflect.StringKind:
		return scalar.AppendString(dst, v.String())
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool())
	case protoreflect.FloatKind:
		return scalar.AppendFloat(dst, v.Float(), 32)
	case protoreflect.DoubleKind:
		return scalar.AppendFloat(dst, v.Float(), 64)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.AppendUint(dst, v.Uint(), 10)
	default:
		return strconv.AppendInt(dst, v.Int(), 10)
	}
}
