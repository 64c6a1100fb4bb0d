package conf

import (
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Print writes one line NAME=value for each setting, followed by its source.
// A secret is shown as [redacted], or as empty if it is not set.
func Print(w io.Writer, l *Loaded) error {
	width := 0
	for _, s := range l.Settings {
		width = max(width, len(s.line()))
	}
	for _, s := range l.Settings {
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, s.line(), s.Source); err != nil {
			return fmt.Errorf("print settings: %w", err)
		}
	}
	return nil
}

// Changed returns the settings that differ from their defaults, and all secrets that are set.
func (l *Loaded) Changed() []Setting {
	var changed []Setting
	for _, s := range l.Settings {
		if s.Value != s.Default || s.Secret && s.Source != SourceDefault {
			changed = append(changed, s)
		}
	}
	return changed
}

func (s Setting) line() string {
	if strings.ContainsFunc(s.Value, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'\\#$`;&|<>()*?!", r) }) {
		return s.Name + "=" + strconv.Quote(s.Value)
	}
	return s.Name + "=" + s.Value
}

// show formats a value as it would be written in the environment. A secret is redacted.
func show(v reflect.Value) string {
	switch held := v.Interface().(type) {
	case secret.String:
		if held.IsZero() {
			return ""
		}
		return secret.Redacted
	case time.Duration:
		return short(held)
	case fmt.Stringer:
		return held.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return show(v.Elem())
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = show(v.Index(i))
		}
		return strings.Join(parts, ",")
	case reflect.Map:
		var parts []string
		for it := v.MapRange(); it.Next(); {
			parts = append(parts, show(it.Key())+":"+show(it.Value()))
		}
		slices.Sort(parts)
		return strings.Join(parts, ",")
	case reflect.String:
		return withoutPassword(v.String())
	default:
		return fmt.Sprint(v.Interface())
	}
}

// withoutPassword redacts the password in a URL. It also redacts malformed URLs, because error messages quote them.
func withoutPassword(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		scheme, rest, _ := strings.Cut(s, "://")
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			return scheme + "://xxxxx" + rest[at:]
		}
		return s
	}
	if u.User == nil {
		return s
	}
	if _, has := u.User.Password(); !has {
		return s
	}
	return u.Redacted()
}

// short formats a duration without trailing zero units: 720h, not 720h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
