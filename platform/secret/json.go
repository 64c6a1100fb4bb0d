package secret

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Masked is what readers see in place of a secret.
const Masked = "***"

// MaskTexts applies Mask to the strings in a JSON text, which become Masked where they look like credentials. It returns the
// text itself if it finds none. Names of members stay as they are.
func MaskTexts(raw []byte) ([]byte, error) {
	return MaskJSON(raw, func(_ string, value any) any {
		if text, ok := value.(string); ok {
			return Mask(text, Masked)
		}
		return value
	})
}

// MaskJSON applies mask to each value in a JSON text that is neither an object nor a list, with the names of the members
// that lead to it, joined by dots. It returns the text itself if no value changes.
func MaskJSON(raw []byte, mask func(name string, value any) any) ([]byte, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	shown, changed := maskValue("", value, mask)
	if !changed {
		return raw, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(shown); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

func maskValue(name string, value any, mask func(name string, value any) any) (shown any, changed bool) {
	switch v := value.(type) {
	case map[string]any:
		for member, one := range v {
			shown, differs := maskValue(strings.TrimPrefix(name+"."+member, "."), one, mask)
			v[member], changed = shown, changed || differs
		}
		return v, changed
	case []any:
		for i, one := range v {
			shown, differs := maskValue(name, one, mask)
			v[i], changed = shown, changed || differs
		}
		return v, changed
	default:
		shown = mask(name, value)
		return shown, shown != value
	}
}
