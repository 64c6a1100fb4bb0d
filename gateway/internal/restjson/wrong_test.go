package restjson_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// invalidJSON returns a JSON value that is invalid for one element of a field, and the type of the fault.
func invalidJSON(fd protoreflect.FieldDescriptor) (value, typ string) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return "3", fault.TypeStringType
	case protoreflect.BytesKind:
		if isRaw(fd) {
			return "1e999", fault.TypeFinite
		}
		return "3", fault.TypeStringType
	case protoreflect.BoolKind:
		return `"true"`, fault.TypeBoolType
	case protoreflect.EnumKind:
		return `"no_such_word"`, fault.TypeEnum
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return `"1.5"`, fault.TypeFloatType
	case protoreflect.MessageKind:
		if fd.Message().FullName() == "google.protobuf.Timestamp" {
			return `"yesterday"`, fault.TypeDatetime
		}
		return "[]", fault.TypeDictType
	default:
		return `"7"`, fault.TypeIntType
	}
}

// key returns a name that is a valid key of the map.
func key(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true"
	case protoreflect.StringKind:
		return "k"
	default:
		return "7"
	}
}

func TestWrongValueReportedAtField(t *testing.T) {
	t.Parallel()
	for _, mt := range messages(t) {
		for i := range mt.Descriptor().Fields().Len() {
			fd := mt.Descriptor().Fields().Get(i)
			name := string(fd.Name())
			switch {
			case fd.IsMap():
				bad, typ := invalidJSON(fd.MapValue())
				if isRaw(fd) {
					bad, typ = "1e999", fault.TypeFinite
				}
				k := key(fd.MapKey())
				requireOne(t, mt, fmt.Sprintf(`{%q:{%q:%s}}`, name, k, bad), typ, "body", name, k)
				requireOne(t, mt, fmt.Sprintf(`{%q:[]}`, name), fault.TypeDictType, "body", name)
				requireOne(t, mt, fmt.Sprintf(`{%q:null}`, name), fault.TypeDictType, "body", name)
			case fd.IsList():
				bad, typ := invalidJSON(fd)
				requireOne(t, mt, fmt.Sprintf(`{%q:[%s]}`, name, bad), typ, "body", name, 0)
				requireOne(t, mt, fmt.Sprintf(`{%q:{}}`, name), fault.TypeListType, "body", name)
				requireOne(t, mt, fmt.Sprintf(`{%q:null}`, name), fault.TypeListType, "body", name)
			default:
				bad, typ := invalidJSON(fd)
				requireOne(t, mt, fmt.Sprintf(`{%q:%s}`, name, bad), typ, "body", name)
			}
		}
	}
}

func TestRepeatedFieldsRefused(t *testing.T) {
	t.Parallel()
	for _, mt := range messages(t) {
		for i := range mt.Descriptor().Fields().Len() {
			fd := mt.Descriptor().Fields().Get(i)
			name, fine := string(fd.Name()), "null"
			switch {
			case fd.IsMap():
				fine = "{}"
			case fd.IsList():
				fine = "[]"
			case !fd.HasPresence() && !isRaw(fd):
				fine = plainValue(fd)
			}
			escaped := fmt.Sprintf(`\u%04x%s`, name[0], name[1:])
			requireOne(t, mt, fmt.Sprintf(`{%q:%s,%q:%s}`, name, fine, name, fine), "duplicate_key", "body", name)
			requireOne(t, mt, fmt.Sprintf(`{%q:%s,"%s":%s}`, name, fine, escaped, fine), "duplicate_key", "body", name)
		}
	}
}

// plainValue returns a valid value for a field without presence.
func plainValue(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return `""`
	case protoreflect.BoolKind:
		return "true"
	case protoreflect.EnumKind:
		word, _ := scalar.NewEnum(fd.Enum()).Word(fd.Enum().Values().Get(1).Number())
		return `"` + word + `"`
	default:
		return "1"
	}
}

func TestOneofAcceptsOneMember(t *testing.T) {
	t.Parallel()
	found := 0
	for _, mt := range messages(t) {
		for i := range mt.Descriptor().Oneofs().Len() {
			oneof := mt.Descriptor().Oneofs().Get(i)
			if oneof.IsSynthetic() || oneof.Fields().Len() < 2 {
				continue
			}
			found++
			first, second := oneof.Fields().Get(0), oneof.Fields().Get(1)
			body := fmt.Sprintf(`{%q:%s,%q:%s}`, first.Name(), memberValue(first), second.Name(), memberValue(second))
			requireOne(t, mt, body, fault.TypeValue, "body", string(second.Name()))
			body = fmt.Sprintf(`{%q:null,%q:%s}`, first.Name(), second.Name(), memberValue(second))
			m := mt.New()
			require.NoError(t, restjson.New().Unmarshal([]byte(body), m.Interface()), body)
			require.Equal(t, second.Name(), m.WhichOneof(oneof).Name(), "a null member does not count")
		}
	}
	_, f := decoded(t, `{"left": "x", "left": "y"}`)
	require.NotNil(t, f)
	require.Equal(t, "[body left] duplicate_key", at(f.Fields[0]), "a repeated member is a duplicate key")
	t.Logf("the contract contains %d oneofs", found)
}

func memberValue(fd protoreflect.FieldDescriptor) string {
	if fd.Message() != nil {
		return "{}"
	}
	return plainValue(fd)
}

func TestDecodeDepthBound(t *testing.T) {
	t.Parallel()
	arrays := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	children := func(n int) string { return strings.Repeat(`{"next":`, n) + `{}` + strings.Repeat("}", n) }
	for name, tc := range map[string]func(inner int) string{
		"raw lists":           func(n int) string { return `{"spec":` + arrays(n) + `}` },
		"raw objects":         func(n int) string { return `{"spec":` + objects(n) + `}` },
		"lists in a raw list": func(n int) string { return `{"requirements":[` + arrays(n-1) + `]}` },
		"messages":            func(n int) string { return `{"child":` + children(n-1) + `}` },
	} {
		_, f := decoded(t, tc(restjson.MaxDepth-1))
		require.Nil(t, f, "%s: the limit itself is allowed", name)
		_, f = decoded(t, tc(restjson.MaxDepth))
		require.NotNil(t, f, name)
		require.Equal(t, fault.TypeJSON, f.Fields[0].Type, name)
		require.Equal(t, "Nested too deeply", f.Fields[0].Ctx["error"], name)
	}
	for _, body := range []string{arrays(100_000), `{"nope":` + objects(100_000) + `}`, strings.Repeat("[", 3_000_000), strings.Repeat(`{"a":`, 500_000)} {
		_, f := decoded(t, body)
		require.NotNil(t, f, "deep nesting must be refused without exhausting the stack")
	}
}

func TestDecodeValueBound(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return `{"names":[` + strings.TrimSuffix(strings.Repeat(`"",`, n), ",") + `]}` }
	_, f := decoded(t, list(restjson.MaxValues-1))
	require.Nil(t, f, "the name counts, too, so this is exactly the limit")
	_, f = decoded(t, list(restjson.MaxValues))
	require.NotNil(t, f)
	require.Equal(t, fault.TooLarge, f.Kind)
	_, f = decoded(t, `{"nope":[`+strings.TrimSuffix(strings.Repeat(`1,`, restjson.MaxValues), ",")+`]}`)
	require.NotNil(t, f, "skipped values count, too")
	_, f = decoded(t, `{"spec":[`+strings.TrimSuffix(strings.Repeat(`{},`, restjson.MaxValues), ",")+`]}`)
	require.Equal(t, fault.TooLarge, f.Kind, "raw values count, too")
}

func TestDecodeFaultBound(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{1: 1, restjson.MaxFaults - 1: restjson.MaxFaults - 1, restjson.MaxFaults: restjson.MaxFaults, 5000: restjson.MaxFaults} {
		_, f := decoded(t, `{"names":[`+strings.TrimSuffix(strings.Repeat("1,", n), ",")+`]}`)
		require.Equal(t, fault.Invalid, f.Kind)
		require.Len(t, f.Fields, want)
		require.Equal(t, []any{"body", "names", want - 1}, f.Fields[want-1].Loc)
	}
}

func TestSyntaxErrorHidesOtherFaults(t *testing.T) {
	t.Parallel()
	_, f := decoded(t, `{"steps":"x","nope":1,"names":[1,2,}`)
	require.Len(t, f.Fields, 1, "a body that is not JSON has one fault, at the first invalid byte")
	require.Equal(t, "[body 35] json_invalid", at(f.Fields[0]))
}
