package evaluation

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// found returns the samples that match a query, each as its step, its index and its user's text.
func (b *harness) found(q *SampleQuery, p request.Page) (found string, more bool) {
	b.t.Helper()
	samples, more, err := (&ValidationStore{Pool: b.pool}).Samples(b.t.Context(), "run_1", q, p)
	require.NoError(b.t, err)
	var out []string
	for _, s := range samples {
		out = append(out, fmt.Sprintf("%d/%d %s", s.Step, s.Index, strings.Trim(string(s.User), `"`)))
	}
	return strings.Join(out, ", "), more
}

// sampled stores a chunk. The samples have the rewards 0, 1, 2 and so on; the last one has none.
func (b *harness) sampled(attempt int32, step int64, index, total int32, users ...string) {
	b.t.Helper()
	v := &report.Validation{RunID: "run_1", Step: step, Chunk: index, Total: total}
	for i, u := range users {
		s := report.Sample{User: []byte(`"` + u + `"`), Assistant: []byte(`[{"content":"Reply to \u00e4 ` + u + `"}]`)}
		if reward := float64(i); i < len(users)-1 {
			s.Reward = &reward
		}
		v.Samples = append(v.Samples, s)
	}
	require.NoError(b.t, b.group(attempt, WriteValidation(v)))
}

func TestValidationStore_Samples_conditions(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.sampled(1, 1, 0, 2, "a", "b")
	b.sampled(1, 1, 1, 2, "100%", "c")
	b.sampled(1, 2, 0, 1, "a", `say \"hi\" now`, "ü", "b")
	b.sampled(1, 5, 0, 1, "gone", "a") // a newer attempt validated an earlier step
	b.sampled(2, 4, 0, 1, "d", "a")
	number := func(n int64) *int64 { return &n }
	reward := func(n float64) *float64 { return &n }
	for name, c := range map[string]struct {
		query SampleQuery
		want  string
	}{
		"last round":              {SampleQuery{}, "4/0 d, 4/1 a"},
		"a step":                  {SampleQuery{Step: number(1)}, "1/0 a, 1/1 b, 1/2 100%, 1/3 c"},
		"absent step":             {SampleQuery{Step: number(3)}, ""},
		"replaced step":           {SampleQuery{Step: number(5)}, ""},
		"from a step":             {SampleQuery{From: number(2)}, `2/0 a, 2/1 say \"hi\" now, 2/2 ü, 2/3 b, 4/0 d, 4/1 a`},
		"up to a step":            {SampleQuery{To: number(1)}, "1/0 a, 1/1 b, 1/2 100%, 1/3 c"},
		"between":                 {SampleQuery{From: number(2), To: number(3)}, `2/0 a, 2/1 say \"hi\" now, 2/2 ü, 2/3 b`},
		"the same prompt":         {SampleQuery{Prompt: promptOf([]byte(`"a"`))}, "1/0 a, 2/0 a, 4/1 a"},
		"the same prompt, later":  {SampleQuery{Prompt: promptOf([]byte(`"a"`)), From: number(2)}, "2/0 a, 4/1 a"},
		"the same prompt, step":   {SampleQuery{Prompt: promptOf([]byte(`"a"`)), Step: number(2)}, "2/0 a"},
		"the same prompt, reward": {SampleQuery{Prompt: promptOf([]byte(`"a"`)), MinReward: reward(0)}, "1/0 a, 2/0 a"},
		"another prompt":          {SampleQuery{Prompt: promptOf([]byte(`"x"`))}, ""},
		"low rewards":             {SampleQuery{From: number(1), MaxReward: reward(0.5)}, "1/0 a, 1/2 100%, 2/0 a, 4/0 d"},
		"high rewards":            {SampleQuery{From: number(1), MinReward: reward(1)}, `2/1 say \"hi\" now, 2/2 ü`},
		"text":                    {SampleQuery{From: number(1), Text: "REPLY"}, `1/0 a, 1/1 b, 1/2 100%, 1/3 c, 2/0 a, 2/1 say \"hi\" now, 2/2 ü, 2/3 b, 4/0 d, 4/1 a`},
		"text with quotes":        {SampleQuery{From: number(1), Text: `"HI"`}, `2/1 say \"hi\" now`},
		"text outside ASCII":      {SampleQuery{Step: number(2), Text: "ü"}, "2/2 ü"},
		"escaped text":            {SampleQuery{Step: number(4), Text: "to ä d"}, "4/0 d"},
		"text with a wildcard":    {SampleQuery{From: number(1), Text: "0%"}, "1/2 100%"},
		"only a wildcard":         {SampleQuery{From: number(1), Text: "_"}, ""},
		"text of the last round":  {SampleQuery{Text: "a"}, "4/1 a"},
	} {
		got, more := b.found(&c.query, all())
		require.Equal(t, c.want, got, name)
		require.False(t, more, name)
	}
	got, more := b.found(&SampleQuery{From: number(1)}, request.Page{Limit: 2, Offset: 3})
	require.Equal(t, "1/3 c, 2/0 a", got)
	require.True(t, more)
}

func TestValidationStore_Samples_boundsSearch(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.sampled(1, 1, 0, 1, "a")
	_, err := b.pool.Exec(t.Context(), `UPDATE validation_chunk SET samples = $1`, maxSearched+1)
	require.NoError(t, err)
	one := 1.0
	for name, q := range map[string]*SampleQuery{"text": {Text: "a"}, "reward": {MinReward: &one}} {
		_, _, err := (&ValidationStore{Pool: b.pool}).Samples(t.Context(), "run_1", q, all())
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		require.ErrorContains(t, err, "20001 samples", name)
	}
	got, _ := b.found(&SampleQuery{Text: "a", Prompt: promptOf([]byte(`"a"`))}, all())
	require.Equal(t, "1/0 a", got, "a prompt has an index")
}

func TestValidationStore_Samples_promptIndexIsValid(t *testing.T) {
	t.Parallel()
	b := open(t)
	var valid bool
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT indisvalid FROM pg_index WHERE indexrelid = 'sample_prompt_idx'::regclass`).Scan(&valid))
	require.True(t, valid)
}

func TestValidationStore_Rounds_meanReward(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.sampled(1, 1, 0, 2, "a", "b", "c", "no reward")
	b.sampled(1, 1, 1, 2, "d", "no reward")
	b.sampled(1, 2, 0, 1, "no reward")
	nan, two := math.NaN(), 2.0
	require.NoError(t, b.group(1, WriteValidation(&report.Validation{RunID: "run_1", Step: 3, Total: 1, Samples: []report.Sample{{Reward: &nan}, {Reward: &two}}})))
	b.sampled(1, 4, 0, 1, "a", "before the columns")
	_, err := b.pool.Exec(t.Context(), `UPDATE validation_chunk SET rewarded = NULL, reward_sum = NULL WHERE step = 4`)
	require.NoError(t, err)
	b.sampled(1, 5, 0, 1, "a", "b", "replaced")
	b.sampled(1, 5, 0, 1, "a", "b", "c", "no reward")
	rounds, _ := b.rounds(all())
	mean := func(n float64) *float64 { return &n }
	for i, want := range []*float64{mean(0.75), nil, mean(2), nil, mean(1)} {
		require.Equal(t, want, rounds[i].MeanReward, "step %d", i+1)
	}
}
