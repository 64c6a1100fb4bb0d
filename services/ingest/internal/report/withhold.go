package report

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Withhold drops the content of every sample. It keeps the reward and stores the length of each part in `extra`. It is
// for runs that read a protected dataset, whose reports may quote the dataset's records.
func (v *Validation) Withhold() {
	for i := range v.Samples {
		s := &v.Samples[i]
		s.Extra = []byte(`{"withheld":{"user":` + length(s.User) + `,"assistant":` + length(s.Assistant) + `,"env":` + length(s.Env) + `}}`)
		s.User, s.Assistant, s.Env = nil, nil, nil
	}
}

// length returns the number of characters of a part: of the text if it is a string, else of its JSON; null if missing.
func length(raw []byte) string {
	if raw == nil {
		return "null"
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil { // not a string
		return strconv.Itoa(utf8.RuneCount(raw))
	}
	return strconv.Itoa(utf8.RuneCountInString(text))
}
