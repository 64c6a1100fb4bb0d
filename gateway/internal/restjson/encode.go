package restjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
)

func (c *Codec) appendMessage(dst []byte, m protoreflect.Message) ([]byte, error) {
	p := c.planOf(m.Descriptor())
	if p.typ != nil && !p.time && m.IsValid() {
		if v := reflect.ValueOf(m.Interface()); v.Type() == p.typ {
			return c.appendStruct(dst, p, v.Elem())
		}
	}
	return c.appendReflected(dst, p, m)
}

// appendReflected writes a message by the reflection of protobuf.
func (c *Codec) appendReflected(dst []byte, p *plan, m protoreflect.Message) ([]byte, error) {
	if p.time {
		return scalar.AppendTime(dst, m)
	}
	var err error
	dst = append(dst, '{')
	for i, f := range p.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, f.label...)
		if dst, err = c.appendField(dst, m, f); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (c *Codec) appendField(dst []byte, m protoreflect.Message, f *field) ([]byte, error) {
	switch f.form {
	case list:
		return c.appendList(dst, m.Get(f.desc).List(), f.value)
	case dict:
		return c.appendMap(dst, m.Get(f.desc).Map(), f)
	case optional:
		if !m.Has(f.desc) {
			return append(dst, "null"...), nil
		}
	case plain:
	}
	return c.appendValue(dst, m.Get(f.desc), f.value)
}

func (c *Codec) appendList(dst []byte, l protoreflect.List, v *value) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	begun, n := len(dst), l.Len()
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
			dst = reserve(dst, begun, i, n)
		}
		if dst, err = c.appendValue(dst, l.Get(i), v); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// reserve makes room for the rest of a list of n elements. The first i of them have been written since dst had begun bytes. A long list
// would otherwise be copied each time that it has grown by a quarter. The room is at most three times of what dst holds, so that
// one long element does not reserve much for many short ones.
func reserve(dst []byte, begun, i, n int) []byte {
	each := (len(dst)-begun)/i + 1
	if cap(dst)-len(dst) >= each {
		return dst
	}
	return slices.Grow(dst, min(each*(n-i)+each/2, 3*len(dst)))
}

type entry struct {
	key   string
	value protoreflect.Value
}

func (c *Codec) appendMap(dst []byte, m protoreflect.Map, f *field) ([]byte, error) {
	entries := make([]entry, 0, m.Len())
	for k, v := range m.Range {
		entries = append(entries, entry{k.String(), v})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	var err error
	dst = append(dst, '{')
	for i, e := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(scalar.AppendString(dst, e.key), ':')
		if dst, err = c.appendValue(dst, e.value, f.value); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (c *Codec) appendValue(dst []byte, v protoreflect.Value, how *value) ([]byte, error) {
	switch how.kind {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return c.appendMessage(dst, v.Message())
	case protoreflect.BytesKind:
		if how.raw {
			return appendRaw(dst, v.Bytes())
		}
		return scalar.AppendBase64(dst, v.Bytes()), nil
	case protoreflect.EnumKind:
		word, ok := how.enum.Word(v.Enum())
		if !ok {
			return append(dst, "null"...), nil
		}
		return scalar.AppendString(dst, word), nil
	default:
		return scalar.Append(dst, v, how.kind), nil
	}
}

// appendRaw writes the given JSON value without white space. Raw values come from a service's database. An invalid
// value is a bug in that service and makes the response fail.
func appendRaw(dst, raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return append(dst, "null"...), nil
	}
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, raw); err != nil {
		return nil, fmt.Errorf("encode raw JSON field: %w", err)
	}
	return buf.Bytes(), nil
}
