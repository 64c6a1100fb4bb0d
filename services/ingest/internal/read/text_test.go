package read

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
)

// spelled returns a text as JSON that escapes every character.
func spelled(text string) []byte {
	var out strings.Builder
	out.WriteByte('"')
	for _, unit := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&out, `\u%04X`, unit)
	}
	out.WriteByte('"')
	return []byte(out.String())
}

// encodings returns a text as JSON in the ways of several encoders.
func encodings(t *testing.T, text string) [][]byte {
	t.Helper()
	plain, err := json.Marshal(text)
	require.NoError(t, err)
	return [][]byte{plain, spelled(text), []byte(strings.ReplaceAll(string(plain), "/", `\/`))}
}

func TestUnescaped_sameForAllEncoders(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", `"\/`, "\n\t\r\b\f\x00\x1f", "wörd 模型 😀", "<&>\u2028", strings.Repeat("ab\"\\", 100)} {
		var first string
		for i, raw := range encodings(t, text) {
			got := string(unescaped(raw))
			var back string
			require.NoError(t, json.Unmarshal([]byte(got), &back))
			require.Equal(t, text, back)
			if i == 0 {
				first = got
			}
			require.Equal(t, first, got)
		}
	}
	for _, raw := range []string{`"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx"`, `{"a\u0022":["\u00fc",1e5,-0.0]}`} {
		got := unescaped([]byte(raw))
		require.True(t, json.Valid(got), raw)
		var before, after any
		require.NoError(t, json.Unmarshal([]byte(raw), &before))
		require.NoError(t, json.Unmarshal(got, &after))
		require.Equal(t, before, after, raw)
	}
	require.Equal(t, `"\ud83d"`, string(unescaped([]byte(`"\uD83D"`))), "half of a pair stays escaped")
}

// whole reads a sample in parts, as a client does.
func whole(t *testing.T, s evaluation.Sample, others int) (user string, parts int) {
	t.Helper()
	var from int
	for {
		samples := []evaluation.Sample{s}
		for range others {
			samples = append(samples, s)
		}
		got := sampleProtos(samples, from)
		require.Less(t, proto.Size(&ingestv1.ListSamplesResponse{Samples: got}), mostMessage)
		var text string
		require.NoError(t, json.Unmarshal(got[0].GetUser(), &text))
		parts++
		if !got[0].GetTruncated() {
			require.Nil(t, got[0].TextNext)
			return user + text, parts
		}
		require.True(t, strings.HasSuffix(text, cut))
		user += strings.TrimSuffix(text, cut)
		require.EqualValues(t, utf8.RuneCountInString(user), got[0].GetTextNext())
		from = int(got[0].GetTextNext())
	}
}

// A text of four million characters is whole, and what is cut of longer ones does not depend on the encoder.
func TestSampleProtos_longTextIsWholeOrReadInParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		parts int
	}{
		"four million characters": {strings.Repeat("x", 4_000_000), 1},
		"a million in Chinese":    {strings.Repeat("模", 1_000_000), 1},
		"longer":                  {strings.Repeat("模型", 1_000_000), 2},
		"with escapes":            {strings.Repeat("\"\n😀", 800_000), 2},
	} {
		for i, raw := range encodings(t, c.text) {
			got, parts := whole(t, evaluation.Sample{User: raw}, 0)
			require.True(t, got == c.text, "%s %d", name, i)
			require.Equal(t, c.parts, parts, "%s %d", name, i)
			got, _ = whole(t, evaluation.Sample{User: raw, Assistant: []byte(`"short"`)}, 1)
			require.True(t, got == c.text, "%s %d in a longer page", name, i)
		}
	}
}

func TestSampleProtos_valuesInParts(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	value := []byte(`[{"role":"user","content":"` + strings.Repeat(`\u4e2d"`[:6], 700_000) + `"},` + fmt.Sprint(draw.Uint64()) + `]`)
	got, parts := whole(t, evaluation.Sample{User: value, Assistant: spelled(strings.Repeat("y", 3_000_000))}, 0)
	require.Greater(t, parts, 1)
	require.JSONEq(t, string(value), got, "the parts of a value are parts of its JSON")
}

func TestLevel_longestAreCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sizes      []int
		room, want int
	}{
		{[]int{1, 2, 3}, 6, 6}, {[]int{1, 2, 3}, 5, 2}, {[]int{10, 1, 10}, 11, 5}, {[]int{9, 9, 9}, 9, 3}, {nil, 5, 0}, {[]int{4}, 0, 0},
	} {
		var texts []*text
		total := 0
		for _, size := range c.sizes {
			texts = append(texts, &text{plain: make([]byte, size)})
			total += min(size, c.want)
		}
		require.Equal(t, c.want, level(texts, c.room), c)
		require.LessOrEqual(t, total, c.room)
	}
}
