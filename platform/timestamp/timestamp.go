// Package timestamp owns the form in which users and programs may write a time. It promises that all parts of the
// product accept the same forms.
package timestamp

import (
	"strings"
	"time"
)

// Example is a valid time, for error messages.
const Example = "2026-11-21T03:00:00.123456+00:00"

// Parse parses a time of ISO 8601: a date, T or a space, a time of day with seconds and an optional fraction, and an
// offset, which is Z, +hh:mm or +hhmm, or the same with a minus sign. Python's str(datetime) uses the space, and its
// strftime("%z") an offset without a colon. The result is in UTC. Leap seconds are not valid, nor are letters in lower
// case.
func Parse(s string) (t time.Time, ok bool) {
	const shape = "0000-00-00T00:00:00"
	if len(s) < len(shape)+1 || strings.Contains(s, ",") {
		return time.Time{}, false
	}
	for i, b := range []byte(shape) {
		switch {
		case b == '0' && (s[i] < '0' || s[i] > '9'):
			return time.Time{}, false
		case b == 'T' && s[i] == ' ':
			s = s[:i] + "T" + s[i+1:]
		case b != '0' && s[i] != b:
			return time.Time{}, false
		}
	}
	if !strings.HasSuffix(s, "Z") {
		at := len(shape) + strings.LastIndexAny(s[len(shape):], "+-")
		offset := s[at+1:]
		if len(offset) == len("hhmm") {
			s = s[:len(s)-2] + ":" + s[len(s)-2:]
			offset = s[at+1:]
		}
		// time.Parse also accepts +24:00 and +00:60.
		if len(offset) != len("hh:mm") || offset[:2] > "23" || offset[3:] > "59" {
			return time.Time{}, false
		}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UTC(), err == nil
}
