package e2eflow

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLesson_Rows(t *testing.T) {
	t.Parallel()
	for _, lesson := range []Lesson{OneDigit(), TwoDigits()} {
		raw, err := lesson.Rows(7)
		require.NoError(t, err)
		seen := map[string]bool{}
		for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
			var row struct{ Question, Answer string }
			require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
			var x, y int
			_, err := fmt.Sscanf(row.Question, "%d+%d?", &x, &y)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(x+y), row.Answer)
			require.Len(t, row.Question, 2*lesson.Digits+2)
			seen[row.Question] = true
		}
		require.Len(t, seen, lesson.Pairs)
		again, err := lesson.Rows(7)
		require.NoError(t, err)
		require.Equal(t, raw, again, "the same seed gives the same rows")
		other, err := lesson.Rows(8)
		require.NoError(t, err)
		require.NotEqual(t, raw, other)
	}
}

func TestLesson_Rows_tooManyPairs(t *testing.T) {
	t.Parallel()
	_, err := Lesson{Digits: 1, Pairs: 101}.Rows(1)
	require.Error(t, err)
}
