package access

import "strings"

// Snippet returns the part of a hit's text around the first of the words that occurs in it, or nil if the hit has no
// text.
func (s Search) Snippet(h *Hit) *string {
	if h.Text == "" {
		return nil
	}
	text, at := []rune(h.Text), 0
	for word := range strings.FieldsSeq(s.Text) {
		if i := strings.Index(strings.ToLower(h.Text), strings.ToLower(word)); i >= 0 {
			at = min(len([]rune(strings.ToLower(h.Text)[:i])), len(text))
			break
		}
	}
	const before, length = 40, 160
	from := max(at-before, 0)
	to := min(from+length, len(text))
	part := strings.Join(strings.Fields(string(text[from:to])), " ")
	if from > 0 {
		part = "… " + part
	}
	if to < len(text) {
		part += " …"
	}
	return &part
}
