package report

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Withhold leaves of each sample its reward and how long its parts are, in `extra`: what a run that reads a protected
// dataset reports may be the dataset's records, word for word.
func (v *Validation) Withhold() {
	for i := range v.Samples {
		s := &v.Samples[i]
		s.Extra = []byte(`{"withheld":{"user":` + length(s.User) + `,"assistant":` + length(s.Assistant) + `,"env":` + length(s.Env) + `}}`)
		s.User, s.Assistant, s.Env = nil, nil, nil
	}
}

// length is how many characters a part has: a text's own, or those of the JSON that it is; null for none.
func length(raw []byte) string {
	if raw == nil {
		return "null"
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil { // no text: an array or an object
		return strconv.Itoa(utf8.RuneCount(raw))
	}
	return strconv.Itoa(utf8.RuneCountInString(text))
}
