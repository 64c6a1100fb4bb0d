package recipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// decodeMembers decodes the value at a path of the manifest. Unlike encoding/json, it refuses members that do not exist,
// also if only the case of their letters differs. The path is empty for the manifest itself.
func decodeMembers(path string, raw json.RawMessage, into any) error {
	err := json.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at := strings.Trim(path+"."+wrong.Field, ".")
		if at == "" {
			return fmt.Errorf("the value is %s; write %s", wrong.Value, described(wrong.Type))
		}
		return fmt.Errorf("%s is of the type %s; write %s", at, wrong.Value, described(wrong.Type))
	}
	if err != nil {
		return err
	}
	return checkMembers(path, raw, reflect.TypeOf(into).Elem())
}

// described returns how people call values of a type.
func described(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a number"
	}
}

func checkMembers(path string, raw json.RawMessage, t reflect.Type) error {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return nil
	case t.Kind() == reflect.Pointer:
		return checkMembers(path, raw, t.Elem())
	case t.Kind() == reflect.Slice:
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
		for i, item := range items {
			if err := checkMembers(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()); err != nil {
				return err
			}
		}
		return nil
	case t.Kind() != reflect.Struct:
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	known := map[string]reflect.Type{}
	var names []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name], names = field.Type, append(names, name)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if known[name] == nil {
			at := "the manifest"
			if path != "" {
				at = path
			}
			return fmt.Errorf("%s has the member %q, which does not exist; it may have %s", at, name, strings.Join(names, ", "))
		}
		if err := checkMembers(strings.TrimPrefix(path+"."+name, "."), members[name], known[name]); err != nil {
			return err
		}
	}
	return nil
}
