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

// Print writes a line NAME=value for each setting, with its source behind it.
// Secrets show as [redacted], or as nothing where they are not set.
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

// Changed lists the settings that differ from their defaults.
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

// show writes a value as it would be set.
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

// withoutPassword guards an address that was given with a password in it, also one that is not well
// written: the fault that tells of it quotes it.
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

// short drops the zeros that Duration.String adds: 720h, not 720h0m0s.
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
