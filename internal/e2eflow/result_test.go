package e2eflow

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRounds(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/runs/run_1/validations", ok(`[{"step":0,"avg_reward":0.01,"complete":true},{"step":500,"avg_reward":null,"complete":false}]`))
	rounds, err := a.loop(long).Rounds(t.Context())
	require.NoError(t, err)
	require.Len(t, rounds, 2)
	require.InDelta(t, 0.01, *rounds[0].AvgReward, 1e-9)
	require.Nil(t, rounds[1].AvgReward)
	require.False(t, rounds[1].Complete)
	empty := newAPI(t)
	empty.respond("GET /api/runs/run_1/validations", ok(`[]`))
	_, err = empty.loop(long).Rounds(t.Context())
	require.ErrorContains(t, err, "no validation round")
}

// pages adds a route that serves the given number of samples in pages, by limit and offset.
func (a *api) pages(total int) {
	a.mux.HandleFunc("GET /api/runs/run_1/samples", func(w http.ResponseWriter, r *http.Request) {
		var limit, offset int
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		_, _ = fmt.Sscan(r.URL.Query().Get("offset"), &offset)
		list := []any{}
		for n := offset; n < min(total, offset+limit); n++ {
			list = append(list, map[string]any{"user": fmt.Sprint(n), "assistant": "a", "env": map[string]any{"expected": n}, "reward": 1})
		}
		_ = json.NewEncoder(w).Encode(list)
	})
}

func TestLoop_Samples_allPages(t *testing.T) {
	t.Parallel()
	for _, total := range []int{0, 1, samplePage - 1, samplePage, samplePage + 1, 2*samplePage + 7} {
		a := newAPI(t)
		a.pages(total)
		samples, err := a.loop(long).Samples(t.Context())
		require.NoError(t, err)
		require.Len(t, samples, total)
		for n, s := range samples {
			require.Equal(t, Sample{Question: fmt.Sprint(n), Answer: "a", Expected: fmt.Sprint(n), Reward: 1}, s)
		}
		require.Len(t, a.requests(), total/samplePage+1)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"73"`: "73", `73`: "73", `"a\/b"`: "a/b", `"\ud83d\ude00"`: "\U0001F600", `null`: "", `""`: "", `[1]`: "[1]",
	} {
		require.Equal(t, want, text(json.RawMessage(raw)), raw)
	}
	require.Empty(t, text(nil))
}

func TestLoop_FindArtifact_returnsLast(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/runs/run_1/artifacts", ok(`[{"id":"art_1","kind":"checkpoint","format":"gguf"},{"id":"art_2","kind":"merged_model","format":"gguf"},
		{"id":"art_3","kind":"merged_model","format":"gguf"},{"id":"art_4","kind":"merged_model","format":"safetensors"}]`))
	l := a.loop(long)
	for want, kind := range map[string]string{"art_3": "merged_model", "art_1": "checkpoint"} {
		got, err := l.FindArtifact(t.Context(), kind, "gguf")
		require.NoError(t, err)
		require.Equal(t, want, got.ID)
	}
	_, err := l.FindArtifact(t.Context(), "adapter", "gguf")
	require.ErrorContains(t, err, "the run registered no adapter in format gguf")
}
