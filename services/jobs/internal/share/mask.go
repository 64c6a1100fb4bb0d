package share

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	masked = secret.Masked
	// keyLength is the minimum number of characters of a value that is masked because its name ends with key or token.
	keyLength = 12
)

// maskConfig masks the hyperparameters that look like credentials, by their name or by their value.
func maskConfig(m *jobsv1.SharedConfig) error {
	params, err := secret.MaskJSON(m.GetHparams(), maskParameter)
	if err != nil {
		return fmt.Errorf("mask hyperparameters: %w", err)
	}
	m.Hparams = params
	return nil
}

// maskSamples masks the parts of conversations that look like credentials. Ingest masks them too, before it cuts texts, so
// that no part of a text begins or ends within a credential; pinned samples may be older than that.
func maskSamples(samples []*jobsv1.SharedSample) error {
	for _, s := range samples {
		var err error
		if s.User, err = secret.MaskTexts(s.GetUser()); err != nil {
			return fmt.Errorf("mask a sample: %w", err)
		}
		if s.Assistant, err = secret.MaskTexts(s.GetAssistant()); err != nil {
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
