package ingest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// A shared list stays in its round, also if another one is reported meanwhile.
func TestGetRunSamples_staysInRound(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	get := func(req *ingestpeerv1.GetRunSamplesRequest) (users string) {
		req.RunId = run.run
		out, err := r.peer.GetRunSamples(t.Context(), req)
		require.NoError(t, err)
		require.True(t, out.GetPositions())
		for _, s := range out.GetSamples() {
			users += s.GetId() + string(s.GetUser())
		}
		return users
	}
	run.post("validation", "", `"step":3,"samples":[{"user":1},{"user":2}]`)
	require.Equal(t, "3.1.0.01", get(&ingestpeerv1.GetRunSamplesRequest{Limit: 1}))
	run.post("validation", "", `"step":4,"samples":[{"user":3},{"user":4}]`)
	require.Equal(t, "3.1.0.12", get(&ingestpeerv1.GetRunSamplesRequest{Limit: 9, After: new("3.1.0.0")}))
	require.Equal(t, "4.1.0.03", get(&ingestpeerv1.GetRunSamplesRequest{Limit: 1}))
	require.Equal(t, "3.1.0.01", get(&ingestpeerv1.GetRunSamplesRequest{Limit: 1, Sample: new("3.1.0.0")}))
	require.Empty(t, get(&ingestpeerv1.GetRunSamplesRequest{Limit: 1, Sample: new("3.2.0.0")}), "no such attempt")
	for _, req := range []*ingestpeerv1.GetRunSamplesRequest{{After: new("x")}, {Sample: new("3.1.0")}} {
		req.RunId, req.Limit = run.run, 1
		_, err := r.peer.GetRunSamples(t.Context(), req)
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	}
}

// A long shared text is read in parts. No part begins or ends within a credential.
func TestGetRunSamples_masksBeforeCut(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	const key = "sk-abcdefgh12345678"
	long := strings.Repeat("x", 1_600_000) + " " + strings.Repeat(key+" ", 30_000)
	run.post("validation", "", `"step":3,"samples":[{"user":"`+long+`","env":"`+long+`"},{"user":["`+long+`"],"extra":{"a":1}}]`)
	get := func(req *ingestpeerv1.GetRunSamplesRequest) *ingestpeerv1.GetRunSamplesResponse {
		req.RunId = run.run
		out, err := r.peer.GetRunSamples(t.Context(), req)
		require.NoError(t, err)
		return out
	}
	page := get(&ingestpeerv1.GetRunSamplesRequest{Limit: 2})
	require.Len(t, page.GetSamples(), 2)
	parts := 0
	for i, s := range page.GetSamples() {
		require.True(t, s.GetTruncated())
		var text strings.Builder
		for {
			require.Empty(t, s.GetEnv())
			require.Empty(t, s.GetExtra())
			text.WriteString(strings.TrimSuffix(strings.Trim(string(s.GetUser()), `"`), "…"))
			if !s.GetTruncated() {
				break
			}
			parts++
			s = get(&ingestpeerv1.GetRunSamplesRequest{Limit: 1, Sample: new(s.GetId()), TextFrom: s.GetTextNext()}).GetSamples()[0]
		}
		want := strings.ReplaceAll(long, key, "***")
		if i == 1 {
			want = `[\"` + want + `\"]`
		}
		require.True(t, text.String() == want, "%d bytes of %d", text.Len(), len(want))
	}
	require.GreaterOrEqual(t, parts, 2)
	require.NotContains(t, string(get(&ingestpeerv1.GetRunSamplesRequest{Limit: 1, TextFrom: 1_600_009}).GetSamples()[0].GetUser()), "12345678")
}
