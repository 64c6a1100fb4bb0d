package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

func TestTee_bounded(t *testing.T) {
	t.Parallel()
	part := []byte(strings.Repeat("x", 10_000))
	whole, tail := &tee{}, &tee{stream: true}
	for range 1000 {
		whole.take(part)
		tail.take(part)
		require.LessOrEqual(t, cap(whole.buf), 2*maxTee+len(part))
		require.LessOrEqual(t, len(tail.buf), 2*tailKept)
	}
	require.Nil(t, whole.buf)
	var c traffic.Call
	whole.fill(&c)
	require.Equal(t, traffic.Call{}, c)
}

func TestTee_fill_longStream(t *testing.T) {
	t.Parallel()
	s := &tee{stream: true}
	for range 5000 {
		s.take([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"word\"},\"finish_reason\":null}]}\n\n"))
	}
	// The last events arrive byte by byte.
	for _, b := range []byte("data: {\"model\":\"m\",\"choices\":[{\"finish_reason\":\"stop\"}]}\r\n\r\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n") {
		s.take([]byte{b})
	}
	require.True(t, s.atBoundary())
	var c traffic.Call
	s.fill(&c)
	require.Equal(t, "m", *c.ResponseModel)
	require.Equal(t, "stop", *c.FinishReason)
	require.Equal(t, int32(1), *c.PromptTokens)
	require.Equal(t, int32(2), *c.CompletionTokens)
	require.Equal(t, traffic.UsageEngine, c.UsageSource)
}

func TestTee_atBoundary(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]bool{
		"": true, "data: a\n\n": true, "data: a\r\n\r\n": true, "data: a\n": false, "data: a": false, "data: a\r\n": false,
	} {
		s := &tee{stream: true}
		s.take([]byte(sent))
		require.Equal(t, want, s.atBoundary(), "%q", sent)
	}
}

func TestReadRequest(t *testing.T) {
	t.Parallel()
	model := "m"
	for body, want := range map[string]request{
		`{"model":"m","stream":true}`: {Model: &model, Stream: true},
		`{"model":"m"}`:               {Model: &model},
		`{"stream":true}`:             {Stream: true},
		`{"model":null}`:              {},
		`{"model":"m"`:                {},
		`{"model":["m"]}`:             {},
		``:                            {},
	} {
		require.Equal(t, want, readRequest("application/json; charset=utf-8", []byte(body)), body)
		require.Equal(t, request{}, readRequest("multipart/form-data", []byte(body)), body)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "abc", cut("abc", 3))
	require.Equal(t, "ab…", cut("abcdef", 5), "what is cut is marked")
	require.Equal(t, "a…", cut("aüüü", 5), "a character must not be split")
	require.Equal(t, "ab", cut("a\x00b\xff", 9))
}

func TestBusy_choose(t *testing.T) {
	t.Parallel()
	var b busy
	one, two, three := &routing.Replica{ID: "1"}, &routing.Replica{ID: "2"}, &routing.Replica{ID: "3"}
	require.Empty(t, b.choose(nil))
	require.Equal(t, []*routing.Replica{one}, b.choose([]*routing.Replica{one}))
	b.enter("1")
	for range 100 {
		require.Equal(t, []*routing.Replica{two, one}, b.choose([]*routing.Replica{one, two}))
	}
	b.enter("2")
	b.enter("2")
	firsts := map[string]int{}
	for range 600 {
		order := b.choose([]*routing.Replica{one, two, three})
		require.Len(t, order, 3)
		require.ElementsMatch(t, []*routing.Replica{one, two, three}, order, "each replica must appear once")
		firsts[order[0].ID]++
	}
	require.Zero(t, firsts["2"], "the busiest replica must never be first")
	require.Greater(t, firsts["3"], firsts["1"])
	b.leave("1")
	b.leave("2")
	b.leave("2")
	require.Empty(t, b.open, "an idle replica must have no entry")
}

func TestEngineHeader_trace(t *testing.T) {
	t.Parallel()
	const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := engineHeader(t.Context(), http.Header{"Traceparent": {theirs}, "Tracestate": {"a=b"}}, "", "req_1")
	require.Equal(t, http.Header{
		"Traceparent": {theirs}, "Tracestate": {"a=b"}, "User-Agent": {""}, "X-Request-Id": {"req_1"},
	}, got, "an engine without a key must get no Authorization header")
	for _, bad := range []string{"", "x", "00-0-0-0", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", strings.ToUpper(theirs)} {
		require.NotContains(t, engineHeader(t.Context(), http.Header{"Traceparent": {bad}}, "k", "r"), "Traceparent", bad)
	}
}
