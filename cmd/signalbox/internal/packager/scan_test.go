package packager

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	hostileSize = 8 << 10
	filler      = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
)

// hostile returns texts that consist of what a shape begins with. They have many matches that are not secrets.
func hostile(h shape) []string {
	texts := make([]string, 0, 16)
	for _, unit := range []string{
		h.hints[0], h.hints[0] + " ", h.hints[0] + "=" + filler + "\n", "\n" + h.hints[0] + filler,
		"-----BEGIN PRIVATE KEY-----\n" + filler + " ", "-----BEGIN PRIVATE KEY-----\nx: " + filler + "\n", "://a:xxxxxxxxx@a",
		`"auths":{{"auth":"xxxxxxxxx"`, `"auths":{"a":{},"b":{"auth":"xxxxxxxxx"},`, `{"d":"` + filler + `","kty":"EC"`, "client-key-data: " + filler,
		"\n_authToken=" + filler, "Authorization: Bearer " + filler, "next_token=" + filler + "\n", "next_next_token=", " 123456789:A" + filler[:34],
	} {
		if unit != h.hints[0] && !h.hinted([]byte(unit), func() []byte { return bytes.ToLower([]byte(unit)) }) {
			continue
		}
		texts = append(texts, strings.Repeat(unit, hostileSize/len(unit)))
	}
	return texts
}

// The bytes that are tested are counted, because a test of the time would depend on the machine.
func TestRead_testsEachByteOfHostileFilesOnce(t *testing.T) {
	t.Parallel()
	const long = 1 << 20
	for _, h := range compileShapes() {
		texts := hostile(h)
		if h.hints[0] == "sk-" {
			texts = append(texts, strings.Repeat("sk-", long/3))
		}
		for _, text := range texts {
			again := len(text) / windowSize * overlap
			matches, tested := 0, 0
			counting := h
			counting.real = func(match string) bool {
				matches++
				tested += len(match)
				require.LessOrEqual(t, tested, len(text)+again, "%s: %.40q", h.name, text)
				return h.real(match)
			}
			found, err := read(t.Context(), strings.NewReader(text), []shape{counting}, int64(len(text)), newWindow())
			require.NoError(t, err)
			require.Nil(t, found.finding, "%s: %.40q", h.name, text)
			require.LessOrEqual(t, matches, len(text)/8, "%s: %.40q", h.name, text)
		}
	}
}

func TestRead_endsWithItsContext(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("sk-"+filler+" ", 1000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	matches := 0
	shapes := compileShapes()
	for i := range shapes {
		shapes[i].real = func(string) bool {
			if matches++; matches == 2 {
				cancel()
			}
			return false
		}
	}
	_, err := read(ctx, strings.NewReader(text), shapes, int64(len(text)), newWindow())
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, matches, "no match is tested after the end")
	_, err = read(ctx, strings.NewReader("x"), nil, 1, newWindow())
	require.ErrorIs(t, err, context.Canceled, "no window is read after the end")
}
