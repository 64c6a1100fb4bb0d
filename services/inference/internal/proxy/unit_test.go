package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
)

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
	got := engineHeader(t.Context(), httprelay.HeaderOf(http.Header{"Traceparent": {theirs}, "Tracestate": {"a=b"}}), "", "req_1").Map()
	require.Equal(t, http.Header{
		"Traceparent": {theirs}, "Tracestate": {"a=b"}, "X-Request-Id": {"req_1"},
	}, got, "an engine without a key must get no Authorization header")
	for _, bad := range []string{"", "x", "00-0-0-0", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", strings.ToUpper(theirs)} {
		require.NotContains(t, engineHeader(t.Context(), httprelay.HeaderOf(http.Header{"Traceparent": {bad}}), "k", "r").Map(), "Traceparent", bad)
	}
}
