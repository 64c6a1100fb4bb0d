package device

import (
	"bytes"
	"crypto/rand"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDrawUser_uniformLetters(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, float64(userLength)*math.Log2(float64(len(letters))), 34.0, "a user code must be hard to guess")
	require.NotContains(t, letters, "A")
	seen := map[rune]int{}
	const codes = 20000
	for range codes {
		code, err := drawUser(rand.Reader)
		require.NoError(t, err)
		require.Regexp(t, `^[BCDFGHJKLMNPQRSTVWXZ]{8}$`, code)
		for _, l := range code {
			seen[l]++
		}
	}
	require.Len(t, seen, len(letters))
	// Each of the 20 letters should occur about 8,000 times, with a standard deviation of 87. Allow six deviations.
	for l, n := range seen {
		require.InDelta(t, codes*userLength/len(letters), n, 530, string(l))
	}
}

func TestDrawUser_skipsBiasedBytes(t *testing.T) {
	t.Parallel()
	code, err := drawUser(bytes.NewReader([]byte{240, 255, 0, 19, 20, 239, 250, 1, 2, 3, 4}))
	require.NoError(t, err)
	require.Equal(t, "BZBZCDFG", code)
	_, err = drawUser(strings.NewReader("short"))
	require.Error(t, err)
	require.Equal(t, "BZBZ-CDFG", shown(code))
}
