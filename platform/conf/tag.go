package conf

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// tag is the part of an env tag that the loader needs. go-envconfig reads the rest.
type tag struct {
	text      string // the whole tag without leading spaces
	name      string
	prefix    string
	byDefault string
	required  bool
}

func parseTag(text string) (tag, error) {
	t := tag{text: strings.TrimLeft(text, " ")}
	name, rest, _ := strings.Cut(t.text, ",")
	t.name = strings.TrimSpace(name)
	for rest != "" {
		option := strings.TrimLeft(rest, " ")
		if value, ok := strings.CutPrefix(option, "default="); ok {
			t.byDefault = value // the rest of the tag, including commas
			break
		}
		option, rest, _ = strings.Cut(option, ",")
		if option = strings.TrimSpace(option); option == "required" {
			t.required = true
		} else if value, ok := strings.CutPrefix(option, "prefix="); ok {
			t.prefix = value
		}
	}
	if t.prefix != "" && t.name != "" {
		return tag{}, fmt.Errorf("the env tag %q has a name and a prefix, but may have only one of them", text)
	}
	return t, nil
}

// holdsText reports whether the empty string is a valid value of the type.
func holdsText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t == reflect.TypeFor[secret.String]()
}

func typeName(t reflect.Type) string {
	switch {
	case t.PkgPath() == "time" && t.Name() == "Duration":
		return "duration"
	case t.Kind() == reflect.Slice:
		return "list of " + typeName(t.Elem())
	case t.Kind() == reflect.Map:
		return "map of " + typeName(t.Elem())
	case t == reflect.TypeFor[secret.String]():
		return "secret"
	case strings.HasPrefix(t.Kind().String(), "int"), strings.HasPrefix(t.Kind().String(), "uint"):
		return "integer"
	case strings.HasPrefix(t.Kind().String(), "float"):
		return "number"
	default:
		return t.Kind().String()
	}
}
