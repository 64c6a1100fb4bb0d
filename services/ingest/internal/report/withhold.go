package report

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Withhold removes the content of every sample, including extra. It preserves the reward, and stores the lengths of
// user, assistant and env in extra. It is called for runs that read a protected dataset, because their reports may
// contain records of the dataset.
func (v *Validation) Withhold() {
	for i := range v.Samples {
		s := &v.Samples[i]
		s.Extra = []byte(`{"withheld":{"user":` + length(s.User) + `,"assistant":` + length(s.Assistant) + `,"env":` + length(s.Env) + `}}`)
		s.User, s.Assistant, s.Env = nil, nil, nil
	}
}

// length returns the number of characters of a part: of its text if the part is a string, otherwise of its JSON. For a
// missing part it returns null.
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
