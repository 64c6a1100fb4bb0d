package share

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

const (
	masked = jobspec.MaskedValue
	// keyLength is the minimum number of characters of a value that is masked because its name ends with key or token.
	keyLength = 12
)

// maskConfig masks the hyperparameters that look like credentials, by their name or by their value.
func maskConfig(m *jobsv1.SharedConfig) error {
	params, err := maskJSON(m.GetHparams(), maskParameter)
	if err != nil {
		return fmt.Errorf("mask hyperparameters: %w", err)
	}
	m.Hparams = params
	return nil
}

// maskSamples masks the parts of conversations that look like credentials.
func maskSamples(samples []*jobsv1.SharedSample) error {
	for _, s := range samples {
		var err error
		if s.User, err = maskJSON(s.GetUser(), maskText); err != nil {
			return fmt.Errorf("mask a sample: %w", err)
		}
		if s.Assistant, err = maskJSON(s.GetAssistant(), maskText); err != nil {
			return fmt.Errorf("mask a sample: %w", err)
		}
	}
	return nil
}

// maskRun masks the parts of a run's name that look like credentials.
func maskRun(r *jobsv1.SharedRun) { r.Name = secret.Mask(r.GetName(), masked) }

// maskParameter masks a hyperparameter as a whole.
func maskParameter(name string, value any) any {
	text, isText := value.(string)
	switch {
	case value == nil:
		return nil
	case secretName(name):
		return masked
	case isText && keyName(name) && utf8.RuneCountInString(text) >= keyLength:
		return masked
	case isText && secret.Mask(text, masked) != text:
		return masked
	}
	return value
}

// maskText masks the parts of a text that look like credentials.
func maskText(_ string, value any) any {
	if text, ok := value.(string); ok {
		return secret.Mask(text, masked)
	}
	return value
}

// secretName reports whether a value of this name is secret, whatever it is.
func secretName(name string) bool {
	low := strings.ToLower(name)
	for _, word := range []string{"secret", "password", "passwd", "pwd", "passphrase", "credential"} {
		if strings.Contains(low, word) {
			return true
		}
	}
	joined := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, low)
	return strings.Contains(joined, "apikey")
}

// keyName reports whether the last word of a name, such as optim.hfToken or ACCESS_KEY_2, is key or token.
func keyName(name string) bool {
	name = strings.TrimRightFunc(name, func(r rune) bool { return !unicode.IsLetter(r) })
	for _, word := range []string{"key", "token"} {
		at := len(name) - len(word)
		if at < 0 || !strings.EqualFold(name[at:], word) {
			continue
		}
		before, _ := utf8.DecodeLastRuneInString(name[:at])
		// A word begins after a character that is not a letter, or with an upper-case letter: of hfToken, or, before a
		// lower-case one, of HFToken.
		upper := unicode.IsUpper(rune(name[at])) && (unicode.IsLower(before) || unicode.IsLower(rune(name[at+1])))
		if at == 0 || !unicode.IsUpper(before) && !unicode.IsLower(before) || upper {
			return true
		}
	}
	return false
}

// maskJSON applies mask to each value in a JSON text that is neither an object nor a list, with the names of the members
// that lead to it, joined by dots.
func maskJSON(raw []byte, mask func(name string, value any) any) ([]byte, error) {
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
