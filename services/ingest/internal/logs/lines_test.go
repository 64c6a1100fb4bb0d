package logs

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func texts(lines [][]byte) []string {
	out := []string{}
	for _, l := range lines {
		out = append(out, string(l))
	}
	return out
}

func TestSplit_textIntoLines(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		tail   string
		pieces []string
		lines  []string
		rest   string
	}{
		"no pieces":           {"", nil, []string{}, ""},
		"whole lines":         {"", []string{"a\n", "b\n"}, []string{"a", "b"}, ""},
		"line across pieces":  {"x", []string{"a", "b\nc", "d"}, []string{"xab"}, "cd"},
		"empty lines":         {"", []string{"\n\na\n\n"}, []string{"", "", "a", ""}, ""},
		"carriage returns":    {"", []string{"10%\r20%\r30%\nwin\r\n"}, []string{"30%", "win"}, ""},
		"NUL":                 {"", []string{"a\x00b\n"}, []string{"a\x00b"}, ""},
		"unfinished tail":     {"ta", []string{"il"}, []string{}, "tail"},
		"finished tail":       {"tail", []string{"\n"}, []string{"tail"}, ""},
		"overwritten tail":    {"10%", []string{"\r20%\r30%"}, []string{}, "30%"},
		"overwritten later":   {"10%\r", []string{"20%\r", "\r"}, []string{}, "20%\r"},
		"overwritten at last": {"10%\r", []string{"20%\n"}, []string{"20%"}, ""},
		"cursor at the start": {"", []string{"10%\r"}, []string{}, "10%\r"},
	}
	for name, c := range cases {
		lines, rest := Split([]byte(c.tail), c.pieces)
		require.Equal(t, c.lines, texts(lines), name)
		require.Equal(t, c.rest, string(rest), name)
	}
}

func TestSplit_boundariesOfPiecesDoNotMatter(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("the quick\nbrown é 😀 fox\n\njumps", 50) + "\n"
	want, _ := Split(nil, []string{whole})
	for range 50 {
		var tail []byte
		var lines [][]byte
		for rest := whole; rest != ""; {
			n := 1 + rand.IntN(len(rest))
			var more [][]byte
			more, tail = Split(tail, []string{rest[:n]})
			lines, rest = append(lines, more...), rest[n:]
		}
		require.Equal(t, texts(want), texts(lines))
		require.Empty(t, tail)
	}
}

func TestSplit_cutsLongLinesBetweenCharacters(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", MaxLine)
	lines, rest := Split(nil, []string{"x" + long + "\n"})
	require.Empty(t, rest)
	require.Greater(t, len(lines), 2)
	for _, l := range lines {
		require.LessOrEqual(t, len(l), MaxLine)
		require.True(t, utf8.Valid(l))
	}
	require.Equal(t, "x"+long, string(bytes.Join(lines, nil)))
}

// A progress bar is one line, however long it runs.
func TestSplit_progressBarIsOneLine(t *testing.T) {
	t.Parallel()
	update := "\rEpoch 1: " + strings.Repeat("#", 100)
	var tail []byte
	for range 5000 {
		var lines [][]byte
		lines, tail = Split(tail, []string{update, update})
		require.Empty(t, lines)
		require.Less(t, len(tail), len(update))
	}
	lines, tail := Split(tail, []string{strings.Repeat(update, 1000) + " done\nnext"})
	require.Equal(t, []string{update[1:] + " done"}, texts(lines))
	require.Equal(t, "next", string(tail))
}

func TestChunks_boundsSize(t *testing.T) {
	t.Parallel()
	lines := make([][]byte, 20_000)
	for i := range lines {
		lines[i] = bytes.Repeat([]byte("x"), 60)
	}
	total := 0
	for _, c := range chunks(lines) {
		total += c.lines
		require.Less(t, len(c.data), maxChunk+MaxLine)
		require.Equal(t, c.lines, bytes.Count(c.data, []byte("\n")))
	}
	require.Equal(t, len(lines), total)
	require.Empty(t, chunks(nil))
}
