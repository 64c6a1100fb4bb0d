package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Lesson is what a walk teaches: additions of numbers with so many digits, with the hparams that learn
// them.
type Lesson struct {
	Digits  int
	Pairs   int
	Hparams map[string]any
}

// TwoDigits is the demo's lesson: half a minute to an exact match of 0.99 on the held-out fifth.
func TwoDigits() Lesson { return Lesson{Digits: 2, Pairs: 4000, Hparams: map[string]any{}} }

// OneDigit is the suites' lesson: some 4 s, and a third of the held-out fifth right. Its steps end it, however slow the
// machine is: its time is only a bound.
func OneDigit() Lesson {
	return Lesson{Digits: 1, Pairs: 100, Hparams: map[string]any{
		"train.batch": 20, "train.max_steps": 500, "optim.lr": 0.002, "train.max_seconds": 60,
	}}
}

// Rows writes the lesson's dataset, JSON lines of question and answer, as the seed draws it.
func (l Lesson) Rows(seed uint64) ([]byte, error) {
	limit := 1
	for range l.Digits {
		limit *= 10
	}
	if l.Pairs > limit*limit {
		return nil, fmt.Errorf("%d digits make %d pairs, %d were asked for", l.Digits, limit*limit, l.Pairs)
	}
	draw := rand.New(rand.NewPCG(seed, 0)) // pairs to train on need no secrecy
	var b bytes.Buffer
	for _, n := range draw.Perm(limit * limit)[:l.Pairs] {
		x, y := n/limit, n%limit
		row, err := json.Marshal(map[string]string{
			"question": fmt.Sprintf("%0*d+%0*d?", l.Digits, x, l.Digits, y), "answer": strconv.Itoa(x + y),
		})
		if err != nil {
			return nil, fmt.Errorf("encode a row: %w", err)
		}
		b.Write(row)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}
