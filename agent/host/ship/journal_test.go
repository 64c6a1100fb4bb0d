package ship

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

func TestAJournalTellsWhereItStood(t *testing.T) {
	t.Parallel()
	open1, open2 := &span{Seq: 1, To: 4}, &span{Seq: 2, From: 4, To: 9}
	for name, c := range map[string]struct {
		text      string
		open      *span
		last, end int64
	}{
		"nothing yet":             {"", nil, 0, 0},
		"one open":                {firstSpan, open1, 1, 4},
		"one done":                {firstSpan + firstDone, nil, 1, 4},
		"one done, one open":      {firstSpan + firstDone + secondSpan, open2, 2, 9},
		"a refused one is done":   {firstSpan + `{"done":1,"refused":413}` + "\n", nil, 1, 4},
		"half a done is none":     {firstSpan + `{"done":1}`, open1, 1, 4},
		"half a span is none":     {firstSpan + firstDone + secondSpan[:20], nil, 1, 4},
		"a done of another":       {firstSpan + `{"done":7}` + "\n", open1, 1, 4},
		"words of a later agent":  {firstSpan + `{"later":true}` + "\n", open1, 1, 4},
		"done twice, as replayed": {firstSpan + firstDone + firstDone, nil, 1, 4},
	} {
		j, err := openJournal(journalAt(t, c.text))
		require.NoError(t, err, name)
		require.Equal(t, c.open, j.open, name)
		require.Equal(t, c.last, j.last, name)
		require.Equal(t, c.end, j.end, name)
		j.close()
	}
}

func TestHalfALineIsCutOffBeforeTheNextOneIsWritten(t *testing.T) {
	t.Parallel()
	path := journalAt(t, firstSpan+firstDone+secondSpan[:20])
	j, err := openJournal(path)
	require.NoError(t, err)
	s, err := j.begin(6)
	require.NoError(t, err)
	require.Equal(t, span{Seq: 2, From: 4, To: 6}, s, "the number of the half line was never used")
	require.NoError(t, j.finish(0))
	j.close()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, firstSpan+firstDone+`{"span":{"seq":2,"from":4,"to":6}}`+"\n"+`{"done":2}`+"\n", string(raw))
}

func TestAJournalThatIsNoneIsAFaultAndNothingIsSent(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	for name, text := range map[string]string{
		"not JSON": "hello\n", "a broken line in the middle": firstSpan + "{\n" + secondSpan, "numbers as text": `{"span":{"seq":"1"}}` + "\n",
	} {
		l := logOf(t, s, "a\nb\n")
		require.NoError(t, os.WriteFile(l.Journal, []byte(text), 0o600))
		require.ErrorContains(t, shipper(t).Run(t.Context(), l, over()), "read the journal", name)
	}
	require.Empty(t, s.calls, "bytes went out under numbers that may be taken")
}

func TestAJournalThatCannotBeWrittenSendsNothing(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "a\n")
	require.NoError(t, os.MkdirAll(l.Journal, 0o700))
	require.Error(t, shipper(t).Run(t.Context(), l, over()))
	l.Journal = filepath.Join(l.Journal, "none", "j")
	require.Error(t, shipper(t).Run(t.Context(), l, over()))
	require.Empty(t, s.calls)
}

func TestTheJournalIsPrivate(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "a\n")
	require.NoError(t, shipper(t).Run(t.Context(), l, over()))
	info, err := os.Stat(l.Journal)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	raw, err := os.ReadFile(l.Journal)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "tok", "the token has no business in the journal")
}

func TestALogThatWasCutShortIsSentAsFarAsItGoes(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "ab\n")
	// The journal knows of nine bytes; somebody emptied the file meanwhile.
	require.NoError(t, os.WriteFile(l.Journal, []byte(`{"span":{"seq":1,"from":0,"to":9}}`+"\n"), 0o600))
	require.NoError(t, shipper(t).Run(t.Context(), l, over()))
	require.Equal(t, "ab\n", s.text(t))
	require.Equal(t, []string{"w:1"}, s.calls)
}

func TestAnEndedContextBeforeAnythingLeavesTheRangeOpen(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	l := logOf(t, s, "a\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, shipper(t).Run(ctx, l, over()), context.Canceled)
	require.NoError(t, shipper(t).Run(t.Context(), l, over()))
	require.Equal(t, "a\n", s.text(t))
	require.Equal(t, []string{"w:1"}, s.calls)
}

func TestBytesThatAreNoTextAreToldInTheirPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"text":                       {"zwölf €\n", "zwölf €\n"},
		"not HTML":                   {"<b>&\u2028\n", "<b>&\u2028\n"},
		"a NUL":                      {"a\x00b\n", "a\u2400b\n"},
		"Latin-1":                    {"zw\xf6lf\n", "zw\uFFFDlf\n"},
		"half of a surrogate":        {"\xed\xa0\x80\n", "\uFFFD\n"},
		"colours are kept":           {"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"},
		"a carriage return is kept":  {"10%\r20%\n", "10%\r20%\n"},
		"the replacement itself too": {"\uFFFD\n", "\uFFFD\n"},
	} {
		s := newIngest(t)
		require.NoError(t, shipper(t).Run(t.Context(), logOf(t, s, c.in), over()))
		require.Equal(t, c.want, s.text(t), name)
	}
}

func TestAMultibyteLineLongerThanARangeIsNotTorn(t *testing.T) {
	t.Parallel()
	s := newIngest(t)
	text := "x" + strings.Repeat("€", maxRaw/3+5)
	require.NoError(t, shipper(t).Run(t.Context(), logOf(t, s, text), over()))
	require.False(t, strings.Contains(s.text(t), "\uFFFD"), "a character was cut in two")
	require.True(t, text == s.text(t), "the text is another")
	require.Len(t, s.calls, 2)
}
