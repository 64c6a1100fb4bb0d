package output

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
)

func TestPrinter_Rows_fitTerminal(t *testing.T) {
	t.Parallel()
	columns := []Column{{Name: "name"}, {Name: "state"}, {Name: "message"}}
	rows := raws(
		`{"name":"`+strings.Repeat("モデル", 20)+`","state":"running","message":"`+strings.Repeat("word ", 30)+`"}`,
		`{"name":"é\u0301x","state":"failed","message":"a\tb\nc"}`, `{"name":"","state":null,"message":"`+strings.Repeat("x", 1<<20)+`"}`,
	)
	for _, width := range []int{20, 29, 40, 41, 80, 200} {
		for _, color := range []bool{false, true} {
			var out strings.Builder
			p := printer(&out, Table)
			p.Width, p.Color, p.Terminal = width, color, true
			require.NoError(t, p.Rows(columns, rows))
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			require.Len(t, lines, 4)
			for _, line := range lines {
				// Columns are not cut to less than eight characters.
				require.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), max(width, 3*narrowest+2*len(gap)), "%q", line)
			}
			require.Contains(t, out.String(), ellipsis)
			require.Contains(t, out.String(), "running")
			require.Equal(t, color, strings.Contains(out.String(), "\x1b[31mfailed\x1b[0m"))
		}
	}
	var out strings.Builder
	require.NoError(t, printer(&out, Table).Rows(columns, rows))
	require.Contains(t, out.String(), strings.Repeat("x", 1<<20), "a file has everything")
}

func TestCut(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abc…", "モデル": "モ…", "モデ": "モデ", "aモデ": "aモ…"} {
		require.Equal(t, want, cut(value, 4), value)
	}
	require.Equal(t, ellipsis, cut("ab", 1))
}

func TestPrinter_Rows_withoutHeadings(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := printer(&out, Table)
	p.Headings = false
	require.NoError(t, p.Rows([]Column{{Name: "id"}}, raws(`{"id":"a"}`)))
	require.NoError(t, p.Rows([]Column{{Name: "id"}}, nil))
	require.Equal(t, "a\n", out.String())
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"plain é モ": "plain é モ", "a\nb\tc": "a b c", "\x1b[31m": `\x1b[31m`, "\u009b": `\u009b`, "\u202e": `\u202e`, "\u2066": `\u2066`, "\u200f": `\u200f`,
		"\x00\r\x7f": `\x00\r\x7f`, "\xff": `\ufffd`, "\u2028": `\u2028`,
	} {
		require.Equal(t, want, Printable(value))
	}
}

func TestFormatters(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("x", 3600))
	number := func(text string) any { return json.Number(text) }
	for _, tc := range []struct {
		as    func(any, time.Time) string
		value any
		want  string
	}{
		{Number, number("0.123456789"), "0.12346"},
		{Number, number("9007199254740992"), "9.0072e+15"},
		{Number, number("123456789012345"), "123456789012345"},
		{Number, "NaN", "NaN"},
		{Number, "-Infinity", "-Inf"},
		{Number, number("1e400"), "1e400"},
		{Text, number("9007199254740993"), "9007199254740993"},
		{Text, []any{"a", number("1.50")}, "a,1.50"},
		{Bytes, number("1048575"), "1.0 MiB"},
		{Bytes, number("1023"), "1023 B"},
		{Bytes, number("104857600"), "100 MiB"},
		{Bytes, number("-5"), "-5 B"},
		{Bytes, "NaN", "NaN"},
		{Bytes, number("1e30"), "1e30"},
		{Seconds, number("59.7"), "1m"},
		{Seconds, number("3661"), "1h1m"},
		{Seconds, number("-90"), "-1m30s"},
		{Seconds, number("1e300"), "1e300"},
		{Seconds, "Infinity", "Infinity"},
		{Age, "2026-01-31T10:59:18Z", "42s"},
		{Age, "2026-01-31T13:00:00Z", "in 2h"},
		{Age, "0001-01-01T00:00:00Z", "106751d"},
		{Age, "soon", "soon"},
		{Age, number("3"), "3"},
		{Time, "2026-01-31T10:59:18.9Z", "2026-01-31 11:59:18"},
		{Short, strings.Repeat("é", 30), strings.Repeat("é", 19)},
		{Count, []any{1, 2}, "2"},
		{Count, map[string]any{"a": 1}, "1"},
	} {
		require.Equal(t, tc.want, tc.as(tc.value, now), "%v", tc.value)
	}
	require.Equal(t, "-0", Digits(math.Copysign(0, -1)))
	require.NotPanics(t, func() { Span(math.MinInt64) })
}

// A part of an id cannot be given to another command, so ids are whole in a narrow terminal too.
func TestPrinter_Rows_wholeIDs(t *testing.T) {
	t.Parallel()
	const id = "job_01kab3c4d5e6f7g8h9j0kmnpqr"
	var out strings.Builder
	p := &Printer{Out: &out, Format: Table, Headings: true, Width: 50, Now: time.Now}
	row := json.RawMessage(`{"id":"` + id + `","run_id":"` + id + `","name":"` + strings.Repeat("long ", 20) + `"}`)
	require.NoError(t, p.Rows([]Column{{Name: "id"}, {Name: "run", Path: "run_id"}, {Name: "name"}}, []json.RawMessage{row}))
	require.Equal(t, 2, strings.Count(out.String(), id), out.String())
	require.Contains(t, out.String(), "long lo…")
}
