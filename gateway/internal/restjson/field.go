package restjson

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func (r *reader) field(m protoreflect.Message, f *field) error {
	switch {
	case f.form == list:
		return r.list(m, f)
	case f.form == dict:
		return r.dict(m, f)
	case r.peek() == 'n' && (f.form == optional || f.value.raw):
		return r.word("null")
	}
	if f.value.kind == protoreflect.MessageKind && !r.codec.planOf(f.desc.Message()).time {
		return r.message(m.Mutable(f.desc).Message(), nil)
	}
	v, ok, err := r.value(f.value, m.NewField(f.desc))
	if ok && err == nil {
		m.Set(f.desc, v)
	}
	return err
}

func (r *reader) list(m protoreflect.Message, f *field) error {
	if r.peek() != '[' {
		return r.wrong(fault.TypeListType, "Input should be a valid list")
	}
	list := m.NewField(f.desc).List()
	err := r.array(func(int) error {
		v, ok, err := r.element(f.value, list.NewElement)
		if ok && err == nil {
			list.Append(v)
		}
		return err
	})
	if err == nil {
		m.Set(f.desc, protoreflect.ValueOfList(list))
	}
	return err
}

func (r *reader) dict(m protoreflect.Message, f *field) error {
	if r.peek() != '{' {
		return r.wrong(fault.TypeDictType, "Input should be a valid dictionary")
	}
	dict := m.NewField(f.desc).Map()
	err := r.object(func(name string) error {
		key, ok := scalar.MapKey(f.key.kind, name)
		if !ok {
			return r.wrong(fault.TypeIntParsing, "Key should be a valid "+f.key.kind.String())
		}
		v, ok, err := r.element(f.value, dict.NewValue)
		if ok && err == nil {
			dict.Set(key, v)
		}
		return err
	})
	if err == nil {
		m.Set(f.desc, protoreflect.ValueOfMap(dict))
	}
	return err
}

// element reads one value of a list or map. The function fresh returns an empty value of its kind.
func (r *reader) element(how *value, fresh func() protoreflect.Value) (protoreflect.Value, bool, error) {
	if how.kind == protoreflect.MessageKind && !r.codec.planOf(how.desc.Message()).time {
		v := fresh()
		return v, true, r.message(v.Message(), nil)
	}
	return r.value(how, fresh())
}

// value reads a scalar, an enum or a timestamp. It returns false if it noted a fault.
func (r *reader) value(how *value, fresh protoreflect.Value) (protoreflect.Value, bool, error) {
	switch how.kind {
	case protoreflect.MessageKind:
		ok, err := r.time(fresh.Message())
		return fresh, ok, err
	case protoreflect.BytesKind:
		if how.raw {
			faults := len(r.faults)
			raw, err := r.raw()
			return protoreflect.ValueOfBytes(raw), err == nil && len(r.faults) == faults, err
		}
		return r.base64()
	case protoreflect.StringKind:
		return r.str()
	case protoreflect.BoolKind:
		return r.boolean()
	case protoreflect.EnumKind:
		return r.enum(how.enum)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return r.float(how.kind)
	default:
		return r.integer(how.kind)
	}
}
