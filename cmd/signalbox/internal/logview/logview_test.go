package logview

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestHarmless_sequences(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"plain é モ\tx":                               "plain é モ\tx",
		"a\x1b[31mred\x1b[0mb":                       "aredb",
		"a\x1b[2K\x1b[1;1H\x1b[?1049hb":              "ab",
		"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b": "alinkb",
		"a\x1b]52;c;aGk=\ab":                         "ab",
		"a\x1b]52;c;aGk=\u009cb":                     "ab",
		"a\x1bPq#0\x1b\\b":                           "ab",
		"a\x1b_G\x1b\\b\x1b^x\x1b\\c\x1bXx\x1b\\d":   "abcd",
		"a\u009b31mb":                                "ab",
		"a\u009d0;title\ab":                          "ab",
		"a\u0090q\u009cb":                            "ab",
		"a\u0085b\u0084c":                            "abc",
		"a\x1b(Bb":                                   "ab", // as tput sgr0 ends
		"a\x1bcb":                                    "ab",
		"a\x1b":                                      "a",
		"a\x1b\x1b[31mb":                             "ab",
		"a\x1béb":                                    "aéb",
		"a\x1b[31":                                   "a",
		"a\x1b[":                                     "a",
		"a\x1b[31éb":                                 "aéb",
		// A command string that does not end hides nothing, and another character aborts it.
		"a\x1b]0;the rest stays":       "a0;the rest stays",
		"a\x1b]0;x\x1b[31mthe rest":    "athe rest",
		"a\x1b]0;x\rthe rest":          "athe rest",
		"a\x00\b\r\x7fb":               "ab",
		"a\u202eb\u2066c\u200fd\u2028": "abcd",
		"a\x9b31mb":                    "a\ufffd31mb",
	} {
		require.Equal(t, want, harmless(line, false), "%q", line)
		require.Equal(t, want, harmless(want, false), "%q", line)
	}
	require.Equal(t, "a0;x\nb\n", Harmless("a\x1b]0;x\nb\x1b[2J\n"), "a sequence ends with its line")
}

func TestHarmless_colors(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"a\x1b[31mred\x1b[m":                      "a\x1b[31mred\x1b[m\x1b[0m",
		"\x1b[38;2;1;2;3mx":                       "\x1b[38;2;1;2;3mx\x1b[0m",
		"\x1b[4:3mx":                              "\x1b[4:3mx\x1b[0m",
		"\x1b[>4;2mx":                             "x", // changes the keyboard
		"\x1b[?1mx\x1b[1 mx\x1b[31Kx":             "xxx",
		"\x1b]0;\x1b[31mx":                        "\x1b[31mx\x1b[0m",
		"\x1b[" + strings.Repeat("1;", 99) + "mx": "x",
		"\u009b31mx":                              "x",
	} {
		require.Equal(t, want, harmless(line, true), "%q", line)
	}
}

func TestHarmless_long(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, part := range []string{"x", "\x1b]", "\x1b[", "\x1bP\x1b[3", "\u009d", "\x1b]0;x", "\x1b", "é\x1b[31mx", "\xff", "\a\x1b]"} {
		got := harmless(strings.Repeat(part, size/len(part)), true)
		got = strings.ReplaceAll(strings.ReplaceAll(got, "\x1b[31m", ""), "\x1b[0m", "")
		require.Negative(t, strings.IndexFunc(got, unicode.IsControl), "%q", part)
	}
}

func FuzzHarmless(f *testing.F) {
	for _, seed := range []string{"a\x1b[31mb", "\x1b]52;c;x\a", "\u009b1m\u009dx\u009c", "\x1bP\x1b\\", "\xc2", "\x1b["} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, r := range harmless(line, false) {
			if !shown(r) {
				t.Fatalf("%q remains of %q", r, line)
			}
		}
	})
}

func TestWriter_Line(t *testing.T) {
	t.Parallel()
	at, rank := "2026-01-31T10:00:00.25Z", 3
	line := Line{Seq: 7, TS: &at, Rank: &rank, Text: "a\x1b[31mb\x1b[2J\x1b]0;x\a"}
	for _, tc := range []struct {
		w    Writer
		want string
	}{
		{Writer{}, line.Text + "\n"},
		{Writer{Color: true}, line.Text + "\n"},
		{Writer{Terminal: true}, "ab\n"},
		{Writer{Terminal: true, Color: true}, "a\x1b[31mb\x1b[0m\n"},
		{Writer{Labels: true, Zone: time.FixedZone("x", 3600)}, "7 11:00:00.250 [3] " + line.Text + "\n"},
	} {
		var out strings.Builder
		tc.w.Out = &out
		require.NoError(t, tc.w.Line(line))
		require.Equal(t, tc.want, out.String())
	}
	var out strings.Builder
	broken := "yesterday"
	require.NoError(t, (&Writer{Out: &out, Labels: true, Zone: time.UTC}).Line(Line{Seq: 1, TS: &broken, Text: "x"}))
	require.NoError(t, (&Writer{Out: &out, Labels: true, Zone: time.UTC}).Line(Line{Seq: 2, Text: "y"}))
	require.Equal(t, "1  [0] x\n2  [0] y\n", out.String())
}

func TestWriter_Unfinished(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := &Writer{Out: &out, Terminal: true, Color: true, Width: 10}
	require.NoError(t, w.Unfinished([]Line{{Text: "50%\x1b[31m\tモデルモデルモデル"}, {Text: strings.Repeat("x", 1<<20)}}))
	require.Equal(t, "50% モデ\n"+strings.Repeat("x", 9)+"\n", out.String(), "each takes one row")
	out.Reset()
	require.NoError(t, w.Unfinished([]Line{{Text: "60%"}}))
	require.Equal(t, "\x1b[2A\x1b[J60%\n", out.String())
	out.Reset()
	require.NoError(t, w.Line(Line{Text: "done"}))
	require.NoError(t, w.Line(Line{Text: "next"}))
	require.Equal(t, "\x1b[1A\x1b[Jdone\nnext\n", out.String())
	out.Reset()
	require.NoError(t, w.Unfinished(make([]Line, 100)))
	require.NoError(t, w.Unfinished(nil))
	require.Equal(t, "\n\n\n\n\x1b[4A\x1b[J", out.String())
	out.Reset()
	require.NoError(t, (&Writer{Out: &out, Width: 80}).Unfinished([]Line{{Text: "x"}}))
	require.Empty(t, out.String(), "a file gets finished lines only")
}
