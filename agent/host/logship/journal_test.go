package logship

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func journalAt(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ship.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const (
	firstSpan  = `{"span":{"seq":1,"from":0,"to":4}}` + "\n"
	firstDone  = `{"done":1}` + "\n"
	secondSpan = `{"span":{"seq":2,"from":4,"to":9}}` + "\n"
)

func TestOpenJournal_replay(t *testing.T) {
	t.Parallel()
	open1, open2 := &span{Seq: 1, To: 4}, &span{Seq: 2, From: 4, To: 9}
	for name, c := range map[string]struct {
		text      string
		open      *span
		last, end int64
	}{
		"empty":                 {"", nil, 0, 0},
		"one open":              {firstSpan, open1, 1, 4},
		"one done":              {firstSpan + firstDone, nil, 1, 4},
		"one done, one open":    {firstSpan + firstDone + secondSpan, open2, 2, 9},
		"refused":               {firstSpan + `{"done":1,"refused":413}` + "\n", nil, 1, 4},
		"incomplete done line":  {firstSpan + `{"done":1}`, open1, 1, 4},
		"incomplete span line":  {firstSpan + firstDone + secondSpan[:20], nil, 1, 4},
		"done of other span":    {firstSpan + `{"done":7}` + "\n", open1, 1, 4},
		"line of later version": {firstSpan + `{"later":true}` + "\n", open1, 1, 4},
		"done twice":            {firstSpan + firstDone + firstDone, nil, 1, 4},
	} {
		j, err := openJournal(journalAt(t, c.text))
		require.NoError(t, err, name)
		require.Equal(t, c.open, j.open, name)
		require.Equal(t, c.last, j.last, name)
		require.Equal(t, c.end, j.end, name)
		j.close()
	}
}

func TestOpenJournal_truncatesIncompleteLine(t *testing.T) {
	t.Parallel()
	path := journalAt(t, firstSpan+firstDone+secondSpan[:20])
	j, err := openJournal(path)
	require.NoError(t, err)
	s, err := j.begin(6)
	require.NoError(t, err)
	require.Equal(t, span{Seq: 2, From: 4, To: 6}, s, "the number of the incomplete line must be used again")
	require.NoError(t, j.finish(0))
	j.close()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, firstSpan+firstDone+`{"span":{"seq":2,"from":4,"to":6}}`+"\n"+`{"done":2}`+"\n", string(raw))
}

func TestShipper_invalidJournal(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	for name, text := range map[string]string{
		"not JSON": "hello\n", "broken line in the middle": firstSpan + "{\n" + secondSpan, "numbers as text": `{"span":{"seq":"1"}}` + "\n",
	} {
		l := logOf(t, s, "a\nb\n")
		require.NoError(t, os.WriteFile(l.Journal, []byte(text), 0o600))
		require.ErrorContains(t, shipper(t).Run(t.Context(), l, finished()), "decode a line of the journal", name)
	}
	require.Empty(t, s.calls, "the shipper must send nothing: the sequence numbers may be in use")
}

func TestShipper_unwritableJournal(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "a\n")
	require.NoError(t, os.MkdirAll(l.Journal, 0o700))
	require.Error(t, shipper(t).Run(t.Context(), l, finished()))
	l.Journal = filepath.Join(l.Journal, "none", "j")
	require.Error(t, shipper(t).Run(t.Context(), l, finished()))
	require.Empty(t, s.calls)
}

func TestJournalIsPrivate(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "a\n")
	require.NoError(t, shipper(t).Run(t.Context(), l, finished()))
	info, err := os.Stat(l.Journal)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	raw, err := os.ReadFile(l.Journal)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "tok", "the journal must not contain the token")
}

func TestShipper_truncatedLog(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "ab\n")
	// The journal has a range of nine bytes, but the log file is shorter.
	require.NoError(t, os.WriteFile(l.Journal, []byte(`{"span":{"seq":1,"from":0,"to":9}}`+"\n"), 0o600))
	require.NoError(t, shipper(t).Run(t.Context(), l, finished()))
	require.Equal(t, "ab\n", s.text(t))
	require.Equal(t, []string{"w:1"}, s.calls)
}

func TestShipper_canceledRunLeavesRangeOpen(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "a\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, shipper(t).Run(ctx, l, finished()), context.Canceled)
	require.NoError(t, shipper(t).Run(t.Context(), l, finished()))
	require.Equal(t, "a\n", s.text(t))
	require.Equal(t, []string{"w:1"}, s.calls)
}

func TestEncode_specialCharacters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"text":                  {"zwölf €\n", "zwölf €\n"},
		"not HTML":              {"<b>&\u2028\n", "<b>&\u2028\n"},
		"NUL":                   {"a\x00b\n", "a\u2400b\n"},
		"Latin-1":               {"zw\xf6lf\n", "zw\uFFFDlf\n"},
		"surrogate half":        {"\xed\xa0\x80\n", "\uFFFD\n"},
		"escape sequences":      {"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"},
		"carriage return":       {"10%\r20%\n", "10%\r20%\n"},
		"replacement character": {"\uFFFD\n", "\uFFFD\n"},
	} {
		s := newIngest(t)
		require.NoError(t, shipper(t).Run(t.Context(), logOf(t, s, c.in), finished()))
		require.Equal(t, c.want, s.text(t), name)
	}
}

func TestShipper_longMultibyteLine(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	text := "x" + strings.Repeat("€", maxRaw/3+5)
	require.NoError(t, shipper(t).Run(t.Context(), logOf(t, s, text), finished()))
	require.False(t, strings.Contains(s.text(t), "\uFFFD"), "no character may be split")
	require.True(t, text == s.text(t), "the delivered text must be the text of the log")
	require.Len(t, s.calls, 2)
}
