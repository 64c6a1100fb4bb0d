package evaluation

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// SampleQuery selects samples. A condition that is nil or empty matches every sample. Without Step, From, To and Prompt,
// only one step of the run is searched: that of After, or the last one. So the pages of a list stay in the round in which
// it began, also if another round is reported meanwhile.
type SampleQuery struct {
	Step, From, To       *int64
	MinReward, MaxReward *float64
	Text                 string
	Prompt               []byte
	Attempt              int32  // an attempt, AllAttempts, or 0 for the rounds that newer attempts do not hide
	Rank                 *int32 // nil for the lowest one that has reported a round
	After                *id.Sample
	Only                 *id.Sample // only this sample
}

// maxSearched is the maximum number of samples in the rounds of a query with a condition that has no index.
const maxSearched = 20_000

// unindexed reports whether the samples of the rounds must be read to find those that match.
func (q *SampleQuery) unindexed() bool {
	return len(q.Prompt) == 0 && (q.Text != "" || q.MinReward != nil || q.MaxReward != nil)
}

// ofRounds selects the rounds of a query: $1 is the run, $2 to $4 are Step, From and To, $5 reports whether only the last
// step is searched, and $6 and $7 are Attempt and Rank.
func ofRounds() string {
	return `WITH found AS (SELECT v.step, v.attempt, v.rank` + visible("$6", "$7") + `
		AND ($2::bigint IS NULL OR v.step = $2) AND ($3::bigint IS NULL OR v.step >= $3) AND ($4::bigint IS NULL OR v.step <= $4)),
	searched AS MATERIALIZED (SELECT step, attempt, rank FROM found WHERE NOT $5 OR step = (SELECT max(step) FROM found))`
}

// rounds returns the arguments of ofRounds.
func (q *SampleQuery) rounds(runID string) []any {
	last, step := q.From == nil && q.To == nil && len(q.Prompt) == 0, q.Step
	if last && step == nil && q.After != nil {
		step = &q.After.Step
	}
	return []any{runID, step, q.From, q.To, last, q.Attempt, q.Rank}
}

// Samples returns a page of the samples that match a query, in the order of their rounds and chunks, and whether another
// page follows. It returns an Invalid fault if it would have to read too many samples.
func (s *ValidationStore) Samples(ctx context.Context, runID string, q *SampleQuery, p request.Page) ([]Sample, bool, error) {
	if err := s.checkSize(ctx, runID, q); err != nil {
		return nil, false, err
	}
	samePrompt := ` AND $11::bytea IS NULL`
	if len(q.Prompt) > 0 {
		samePrompt = ` AND m.prompt = $11` // without OR, so that every plan can use the index
	}
	var step *int64 // of the position
	after := id.Sample{}
	if q.After != nil {
		after = *q.After
		step = &after.Step
	}
	var chunk, index *int32 // of the only sample
	if q.Only != nil {
		chunk, index = &q.Only.Chunk, &q.Only.Index
	}
	// The position of a sample in its round is the number of samples in the chunks before its own, plus its index.
	rows, err := s.Pool.Query(ctx, ofRounds()+` SELECT m.step, m.attempt, m.rank, m.chunk_index, m.index, m.index + (SELECT coalesce(sum(c.samples), 0) FROM every_validation_chunk c
			WHERE c.run_id = $1 AND c.attempt = m.attempt AND c.rank = m.rank AND c.step = m.step AND c.chunk_index < m.chunk_index)::int,
			m.user_text, m.assistant, m.env, m.reward, m.extra, m.prompt
		FROM searched r JOIN every_sample m ON m.run_id = $1 AND m.attempt = r.attempt AND m.rank = r.rank AND m.step = r.step
		WHERE ($8::float8 IS NULL OR m.reward >= $8 AND m.reward <> 'NaN') AND ($9::float8 IS NULL OR m.reward <= $9)
			AND ($10::text[] IS NULL OR m.user_text ILIKE ANY ($10) OR m.assistant ILIKE ANY ($10) OR m.env ILIKE ANY ($10))
`+samePrompt+`
			AND ($14::bigint IS NULL OR (m.step, m.attempt, m.chunk_index, m.index) > ($14, $15::int, $16::int, $17::int))
			AND ($18::int IS NULL OR m.chunk_index = $18 AND m.index = $19)
		ORDER BY m.step, m.attempt, m.chunk_index, m.index LIMIT $12 OFFSET $13`,
		append(q.rounds(runID), q.MinReward, q.MaxReward, patterns(q.Text), q.Prompt, p.FetchLimit(), p.Offset,
			step, after.Attempt, after.Chunk, after.Index, chunk, index)...)
	if err != nil {
		return nil, false, fmt.Errorf("list samples: %w", err)
	}
	samples, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Sample, err error) {
		err = row.Scan(&s.Step, &s.Attempt, &s.Rank, &s.Place.Chunk, &s.Place.Index, &s.Index, &s.User, &s.Assistant, &s.Env, &s.Reward, &s.Extra, &s.Prompt)
		s.Place.Step, s.Place.Attempt = s.Step, s.Attempt
		return s, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("list samples: %w", err)
	}
	samples, more := request.CutPage(samples, p)
	return samples, more, nil
}

// checkSize returns an Invalid fault if the rounds of an unindexed query have too many samples.
func (s *ValidationStore) checkSize(ctx context.Context, runID string, q *SampleQuery) error {
	if !q.unindexed() {
		return nil
	}
	var n int64
	err := s.Pool.QueryRow(ctx, ofRounds()+` SELECT coalesce(sum(c.samples), 0) FROM searched r
		JOIN every_validation_chunk c ON c.run_id = $1 AND c.attempt = r.attempt AND c.rank = r.rank AND c.step = r.step`, q.rounds(runID)...).Scan(&n)
	if err != nil {
		return fmt.Errorf("count the samples of rounds: %w", err)
	}
	if n <= maxSearched {
		return nil
	}
	return fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf(
		"Value error, the rounds have %d samples, and at most %d can be searched; select fewer rounds with from_step and to_step", n, maxSearched), "from_step"))
}

// patterns returns the patterns that find a text in JSON, or nil for the empty text. Some encoders write characters
// outside ASCII as they are, others escape them.
func patterns(text string) []string {
	if text == "" {
		return nil
	}
	var plain, escaped strings.Builder
	for _, c := range text {
		switch one := inJSON(c); {
		case one != string(c):
			plain.WriteString(one)
			escaped.WriteString(one)
		case c < utf8.RuneSelf:
			plain.WriteRune(c)
			escaped.WriteRune(c)
		default:
			plain.WriteRune(c)
			for _, unit := range utf16.AppendRune(nil, c) {
				fmt.Fprintf(&escaped, `\u%04x`, unit)
			}
		}
	}
	literal := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
	return []string{"%" + literal.Replace(plain.String()) + "%", "%" + literal.Replace(escaped.String()) + "%"}
}

// inJSON returns a character as JSON encoders must write it in a string.
func inJSON(c rune) string {
	switch {
	case c == '"' || c == '\\':
		return `\` + string(c)
	case c == '\n':
		return `\n`
	case c == '\t':
		return `\t`
	case c == '\r':
		return `\r`
	case c < ' ':
		return fmt.Sprintf(`\u%04x`, c)
	default:
		return string(c)
	}
}
