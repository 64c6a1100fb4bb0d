package restjson

import (
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
)

// timestampName is the only well-known type with its own JSON form in the API contract.
const timestampName protoreflect.FullName = "google.protobuf.Timestamp"

// plan describes a message type for the codec: its fields in declaration order and by name.
type plan struct {
	time   bool
	fields []*field
	byName map[string]*field
	typ    reflect.Type // of the generated Go type, a pointer; nil for a message without one
	named  []string     // lists that a request must contain, although they may be empty
}

// field is one field of a plan.
type field struct {
	desc  protoreflect.FieldDescriptor
	index int
	name  string
	label string // `"name":`
	value *value
	key   *value // maps only
	form  form

	member member
}

// form is how a field is stored in its message.
type form int

const (
	plain    form = iota // always has a value
	optional             // may be unset
	list
	dict
)

// value describes the JSON form of a single value: a list element, a map key or value, or a field that is neither a
// list nor a map.
type value struct {
	kind protoreflect.Kind
	raw  bool
	enum *scalar.Enum
	desc protoreflect.FieldDescriptor
}

func newPlan(md protoreflect.MessageDescriptor) *plan {
	fields := md.Fields()
	p := &plan{
		time:   md.FullName() == timestampName,
		fields: make([]*field, fields.Len()),
		byName: make(map[string]*field, fields.Len()),
	}
	for i := range p.fields {
		f := newField(fields.Get(i), i)
		p.fields[i] = f
		p.byName[f.name] = f
		if isNamed(fields.Get(i)) {
			p.named = append(p.named, f.name)
		}
	}
	p.findMembers(md)
	return p
}

func newField(fd protoreflect.FieldDescriptor, index int) *field {
	f := &field{desc: fd, index: index, name: string(fd.Name()), label: `"` + string(fd.Name()) + `":`}
	raw := isRaw(fd)
	switch {
	case fd.IsMap():
		f.form, f.key, f.value = dict, newValue(fd.MapKey(), false), newValue(fd.MapValue(), raw)
		return f
	case fd.IsList():
		f.form = list
	case fd.HasPresence():
		f.form = optional
	}
	f.value = newValue(fd, raw)
	return f
}

func newValue(fd protoreflect.FieldDescriptor, raw bool) *value {
	v := &value{kind: fd.Kind(), desc: fd, raw: raw && fd.Kind() == protoreflect.BytesKind}
	if fd.Kind() == protoreflect.EnumKind {
		v.enum = scalar.NewEnum(fd.Enum())
	}
	return v
}

func isRaw(fd protoreflect.FieldDescriptor) bool {
	opts, ok := fd.Options().(*descriptorpb.FieldOptions)
	return ok && proto.GetExtension(opts, optionsv1.E_RawJson).(bool)
}

func isNamed(fd protoreflect.FieldDescriptor) bool {
	opts, ok := fd.Options().(*descriptorpb.FieldOptions)
	return ok && proto.GetExtension(opts, optionsv1.E_Named).(bool)
}
