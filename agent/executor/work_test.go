package executor

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestKey_Validate(t *testing.T) {
	t.Parallel()
	key := Key{WorkID: "wrk_1", Generation: 2, Fence: 3}
	require.Equal(t, "wrk_1.2.3", key.String())
	require.NoError(t, key.Validate())
	for _, id := range []string{"", "..", "a/b", "a b", "a.b", "-a", "ä", strings.Repeat("a", 129)} {
		require.Error(t, Key{WorkID: id}.Validate(), id)
	}
	require.Error(t, Key{WorkID: "a", Generation: -1}.Validate())
	require.Error(t, Key{WorkID: "a", Fence: -1}.Validate())
}

func TestKey_Before_fenceThenGeneration(t *testing.T) {
	t.Parallel()
	at := func(generation, fence int64) Key { return Key{WorkID: "a", Generation: generation, Fence: fence} }
	for _, c := range []struct {
		a, b Key
		want bool
	}{
		{at(1, 1), at(1, 2), true},
		{at(1, 2), at(1, 1), false},
		{at(2, 1), at(1, 2), true},
		{at(1, 1), at(2, 1), true},
		{at(1, 1), at(1, 1), false},
	} {
		require.Equal(t, c.want, c.a.Before(c.b), "%s before %s", c.a, c.b)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"  short \n", 10, "short"},
		{"one\ntwo\nthree", 9, "three"},
		{"onetwothree", 5, "three"},
		{"a\x00b\xffc", 10, "ab\uFFFDc"},
		{"€€€", 4, "€"},
		{"", 4, ""},
	} {
		got := Tail(c.text, c.n)
		require.Equal(t, c.want, got)
		require.True(t, utf8.ValidString(got))
	}
}
