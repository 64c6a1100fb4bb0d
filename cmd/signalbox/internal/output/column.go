package output

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Column is a column of a table.
type Column struct {
	// Name is what --columns calls the column. In capital letters it is the heading.
	Name string
	// Path leads to the value in a row; if it is empty, it is the name.
	Path string
	// Wide columns are only in the format wide.
	Wide bool
	// Right aligns numbers.
	Right bool
	// As formats a value; Text if it is nil.
	As func(value any, now time.Time) string
}

func (c Column) path() string {
	if c.Path != "" {
		return c.Path
	}
	return c.Name
}

// isID reports whether the column has ids.
func (c Column) isID() bool { return c.path() == "id" || strings.HasSuffix(c.path(), "_id") }

func (c Column) format(row any, now time.Time) string {
	value, _ := lookup(row, c.path())
	if value == nil {
		return ""
	}
	if c.As != nil {
		return Printable(c.As(value, now))
	}
	return Printable(Text(value, now))
}

// Text formats a value as itself: lists with commas between the elements, objects as key=value sorted by key.
func Text(value any, now time.Time) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			parts[i] = Text(element, now)
		}
		return strings.Join(parts, ",")
	case map[string]any:
		parts := make([]string, 0, len(v))
		for key, member := range v {
			parts = append(parts, key+"="+Text(member, now))
		}
		slices.Sort(parts)
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value)
}

// Age formats a time as the time since then: 12s, 5m, 3h, 14d. A time in the future is "in 5m".
func Age(value any, now time.Time) string {
	text, ok := value.(string)
	if !ok {
		return Text(value, now)
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	age := now.Sub(at)
	if age < -time.Second {
		return "in " + Span(-age)
	}
	return Span(max(age, 0))
}

// Time formats a time in the local time zone of the user, with seconds.
func Time(value any, now time.Time) string {
	text, ok := value.(string)
	if !ok {
		return Text(value, now)
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.In(now.Location()).Format("2006-01-02 15:04:05")
}

// Span formats a duration with its two highest units at most: 45s, 5m10s, 3h20m, 14d.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = d.Round(time.Second); {
	case d < 0:
		return "-" + Span(-max(d, -math.MaxInt64))
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 10*time.Minute:
		return two(int(d/time.Minute), "m", int(d%time.Minute/time.Second), "s")
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 10*time.Hour:
		return two(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "m")
	case d < 2*day:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/day)) + "d"
}

func two(high int, unit string, low int, lower string) string {
	if low == 0 {
		return strconv.Itoa(high) + unit
	}
	return strconv.Itoa(high) + unit + strconv.Itoa(low) + lower
}

// Seconds formats a number of seconds as a duration.
func Seconds(value any, now time.Time) string {
	f, ok := float(value)
	if !ok || math.Abs(f) > math.MaxInt64/float64(time.Second) || math.IsNaN(f) {
		return Text(value, now)
	}
	return Span(time.Duration(f * float64(time.Second)))
}

// Bytes formats a number of bytes in the units KiB, MiB, GiB and TiB.
func Bytes(value any, now time.Time) string {
	f, ok := float(value)
	if !ok || math.Abs(f) >= math.MaxInt64 || math.IsNaN(f) {
		return Text(value, now)
	}
	return Size(int64(f))
}

// Size formats a number of bytes.
func Size(n int64) string {
	f, unit := float64(n), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for f >= 1023.5 && unit < len(units)-1 {
		f, unit = f/1024, unit+1
	}
	name := units[unit]
	if unit == 0 || f >= 99.95 {
		return fmt.Sprintf("%.0f %s", f, name)
	}
	return fmt.Sprintf("%.1f %s", f, name)
}

// Number formats a number with five significant digits, which is enough to compare values of a metric.
func Number(value any, now time.Time) string {
	f, ok := float(value)
	if !ok {
		return Text(value, now)
	}
	return Digits(f)
}

// Digits formats a number with five significant digits. Integers of up to 15 digits are exact.
func Digits(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 5, 64)
}

// Short formats a digest or another long text by its first 19 characters.
func Short(value any, now time.Time) string {
	text := []rune(Text(value, now))
	const length = 19
	return string(text[:min(len(text), length)])
}

// Count formats a list by its number of elements, and an object by that of its members.
func Count(value any, now time.Time) string {
	switch v := value.(type) {
	case []any:
		return strconv.Itoa(len(v))
	case map[string]any:
		return strconv.Itoa(len(v))
	}
	return Text(value, now)
}

// float returns a number of JSON, also one of the texts NaN, Infinity and -Infinity.
func float(value any) (float64, bool) {
	text := ""
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	default:
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
