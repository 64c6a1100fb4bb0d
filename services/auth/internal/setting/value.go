package setting

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// input is a value from a request: a JSON value, a secret, or neither, which resets the setting to its default.
type input struct {
	value  json.RawMessage
	secret secret.String
}

func (v input) set() bool { return v.value != nil || !v.secret.IsZero() }

// parse parses a value of the setting. The gateway passes a JSON null as an empty value.
func (d Definition) parse(raw []byte) (input, error) {
	text := strings.TrimSpace(string(raw))
	switch {
	case text == "" || text == "null":
		return input{}, nil
	case d.Type == Integer:
		return d.integer(text)
	case d.Type == Boolean:
		return d.boolean(text)
	case d.Type == StringList:
		return d.list(text)
	case d.Type == Secret:
		return d.secret(text)
	default:
		s, err := d.text(text)
		return encoded(s, err)
	}
}

func (d Definition) integer(text string) (input, error) {
	var n int64
	if json.Unmarshal([]byte(text), &n) != nil {
		return input{}, wrong(fault.TypeIntType, "Input should be a valid integer")
	}
	if n < int64(d.Min) || n > int64(d.Max) {
		return input{}, wrong(fault.TypeValue, fmt.Sprintf("Input should be from %d to %d", d.Min, d.Max))
	}
	return encoded(n, nil)
}

func (d Definition) boolean(text string) (input, error) {
	var b bool
	if json.Unmarshal([]byte(text), &b) != nil {
		return input{}, wrong(fault.TypeBoolType, "Input should be a valid boolean")
	}
	return encoded(b, nil)
}

func (d Definition) list(text string) (input, error) {
	var all []string
	if json.Unmarshal([]byte(text), &all) != nil || all == nil {
		return input{}, wrong(fault.TypeListType, "Input should be a list of strings")
	}
	if len(all) < d.Min || len(all) > d.Max {
		return input{}, wrong(fault.TypeValue, fmt.Sprintf("List should have %d to %d items", d.Min, d.Max))
	}
	for _, s := range all {
		if s == "" || len(s) > maxItem || !visible(s) {
			return input{}, wrong(fault.TypeValue, fmt.Sprintf("Items should be strings of 1 to %d bytes, with visible characters only", maxItem))
		}
	}
	return encoded(all, nil)
}

// maxItem is the maximum length of a list item, in bytes.
const maxItem = 256

func (d Definition) secret(text string) (input, error) {
	s, err := d.text(text)
	return input{secret: secret.New(s)}, err
}

// text parses and checks a string. Errors do not repeat the value, because it may be a secret.
func (d Definition) text(text string) (string, error) {
	var s string
	if json.Unmarshal([]byte(text), &s) != nil {
		return "", wrong(fault.TypeStringType, "Input should be a valid string")
	}
	if n := utf8.RuneCountInString(s); n < d.Min || n > d.Max {
		return "", wrong(fault.TypeValue, fmt.Sprintf("String should have %d to %d characters", d.Min, d.Max))
	}
	if !visible(s) {
		return "", wrong(fault.TypeValue, "String should have visible characters only")
	}
	if s != strings.TrimSpace(s) {
		return "", wrong(fault.TypeValue, "String should not begin or end with a space")
	}
	return s, nil
}

func visible(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func encoded(value any, err error) (input, error) {
	if err != nil {
		return input{}, err
	}
	raw, err := json.Marshal(value)
	return input{value: raw}, err
}

func wrong(typ, msg string) error { return fault.InvalidFields(fault.At(typ, msg, "value")) }
