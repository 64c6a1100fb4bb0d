package restjson

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// errEnough stops the reader after MaxFaults faults, after MaxValues values, or when Lacks has found its member.
var errEnough = errors.New("enough")

// reader reads one body from start to end. It sets the fields of the target and notes each fault with its path.
type reader struct {
	scanner
	codec  *Codec
	sealed map[string]bool
	depth  int
	values int
	path   []any
	faults []fault.Field
}

func (c *Codec) decode(data []byte, v any, sealed map[string]bool) error {
	r := &reader{scanner: scanner{data: data}, codec: c, sealed: sealed, path: []any{"body"}}
	err := r.whole(v)
	var syntax *syntaxError
	switch {
	case errors.As(err, &syntax):
		bad := fault.At(fault.TypeJSON, "JSON decode error", "body", syntax.offset)
		bad.Ctx = map[string]any{"error": syntax.msg}
		return fault.InvalidFields(bad)
	case errors.Is(err, errEnough) && len(r.faults) == 0:
		return fault.New(fault.TooLarge, "", "the request holds more than %d values", MaxValues)
	case err != nil && !errors.Is(err, errEnough):
		return err
	case len(r.faults) > 0:
		return fault.InvalidFields(r.faults...)
	default:
		return nil
	}
}

// whole reads the body, which must be a single value, into v. The caller is a generated handler.
func (r *reader) whole(v any) error {
	if err := r.into(v); err != nil {
		return err
	}
	return r.end()
}

func (r *reader) into(v any) error {
	switch v := v.(type) {
	case proto.Message:
		return r.message(v.ProtoReflect(), r.sealed)
	case *[]byte:
		raw, err := r.raw()
		*v = raw
		return err
	}
	ptr := reflect.ValueOf(v)
	if ptr.Kind() != reflect.Pointer || ptr.Elem().Kind() != reflect.Pointer {
		return fmt.Errorf("decode into %T: the API has no JSON form for this type", v)
	}
	fresh := reflect.New(ptr.Type().Elem().Elem())
	m, ok := reflect.TypeAssert[proto.Message](fresh)
	if !ok {
		return fmt.Errorf("decode into %T: the API has no JSON form for this type", v)
	}
	if r.peek() == 'n' {
		return r.word("null")
	}
	ptr.Elem().Set(fresh)
	return r.message(m.ProtoReflect(), nil)
}

// fault notes a fault at the current path.
func (r *reader) fault(typ, msg string) error {
	return r.note(fault.Field{Loc: slices.Clone(r.path), Type: typ, Msg: msg})
}

func (r *reader) note(f fault.Field) error {
	r.faults = append(r.faults, f)
	if len(r.faults) >= MaxFaults {
		return errEnough
	}
	return nil
}

// wrong skips a value and notes its fault.
func (r *reader) wrong(typ, msg string) error {
	if err := r.skip(); err != nil {
		return err
	}
	return r.fault(typ, msg)
}

// at appends a step to the path while it runs the function f.
func (r *reader) at(step any, f func() error) error {
	r.path = append(r.path, step)
	err := f()
	r.path = r.path[:len(r.path)-1]
	return err
}

func (r *reader) count() error {
	if r.values++; r.values > MaxValues {
		return errEnough
	}
	return nil
}

func (r *reader) enter() error {
	if r.depth++; r.depth > MaxDepth {
		return r.fail("Nested too deeply")
	}
	return nil
}

// message reads an object into m. It refuses the names in the map sealed, because the path sets those fields.
func (r *reader) message(m protoreflect.Message, sealed map[string]bool) error {
	if r.peek() != '{' {
		return r.wrong(fault.TypeDictType, "Input should be a valid dictionary")
	}
	p := r.codec.planOf(m.Descriptor())
	var given map[string]bool
	if len(p.named) > 0 {
		given = make(map[string]bool, len(p.named))
	}
	err := r.object(func(name string) error {
		f, ok := p.byName[name]
		if slices.Contains(p.named, name) {
			given[name] = true
		}
		if !ok || sealed[name] {
			return r.wrong(fault.TypeExtra, "Extra inputs are not permitted")
		}
		if other := taken(m, f.desc); other != "" && r.peek() != 'n' {
			return r.wrong(fault.TypeValue, "Only one of "+other+" and "+name+" may be given")
		}
		return r.field(m, f)
	})
	// Report missing fields only if the object has no other fault.
	for i, noted := 0, len(r.faults); err == nil && noted == 0 && i < len(p.named); i++ {
		if name := p.named[i]; !given[name] {
			err = r.at(name, func() error { return r.fault(fault.TypeMissing, "Field required") })
		}
	}
	return err
}

// taken returns the name of a field other than fd that already sets fd's oneof, or "".
func taken(m protoreflect.Message, fd protoreflect.FieldDescriptor) string {
	oneof := fd.ContainingOneof()
	if oneof == nil || oneof.IsSynthetic() {
		return ""
	}
	if held := m.WhichOneof(oneof); held != nil && held != fd {
		return string(held.Name())
	}
	return ""
}

// object reads an object. It calls the function member with each name, to read the value of that name. During
// the call, the path ends with the name. A repeated name is a fault.
func (r *reader) object(member func(name string) error) error {
	if err := r.enter(); err != nil {
		return err
	}
	r.pos++ // the brace
	seen := make(map[string]bool)
	for first := true; !r.next('}'); first = false {
		if err := r.separator(first); err != nil {
			return err
		}
		name, err := r.name()
		if err != nil {
			return err
		}
		err = r.at(label(name), func() error {
			if seen[name] {
				return r.wrong("duplicate_key", "Name given more than once")
			}
			seen[name] = true
			return member(name)
		})
		if err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

func (r *reader) separator(first bool) error {
	if first || r.next(',') {
		return nil
	}
	return r.fail("Expecting ',' delimiter")
}

func (r *reader) name() (string, error) {
	if r.peek() != '"' {
		return "", r.fail("Expecting property name enclosed in double quotes")
	}
	if err := r.count(); err != nil {
		return "", err
	}
	name, err := r.text()
	if err != nil {
		return "", err
	}
	if !r.next(':') {
		return "", r.fail("Expecting ':' delimiter")
	}
	return name, nil
}

// array reads a list. It calls the function element with each index, to read the value at that index.
func (r *reader) array(element func(i int) error) error {
	if err := r.enter(); err != nil {
		return err
	}
	r.pos++ // the bracket
	for i := 0; !r.next(']'); i++ {
		if err := r.separator(i == 0); err != nil {
			return err
		}
		if err := r.count(); err != nil {
			return err
		}
		if err := r.at(i, func() error { return element(i) }); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

// label shortens a name that the client sent, so that it can be quoted in a response.
func label(name string) string {
	const limit = 64
	if runes := []rune(name); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return name
}
