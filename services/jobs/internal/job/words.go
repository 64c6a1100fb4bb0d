package job

import "strings"

// Words makes text of an agent or a training storable: valid UTF-8 without NUL, its last limit bytes.
func Words(s string, limit int) string {
	if len(s) > limit {
		s = s[len(s)-limit:]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
