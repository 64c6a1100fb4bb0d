package usage

import (
	"strings"
	"testing"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// BenchmarkResponse measures the time to read 1 KB of a body, as ns/KB.
func BenchmarkResponse(b *testing.B) {
	chunk := `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1764000000,"model":"org/model-7b",` +
		`"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}` + "\n\n"
	for _, c := range []struct {
		name string
		h    httprelay.Header
		part string
	}{
		{"chat", jsonHeader(), `{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("some words ", 60) +
			`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`},
		{"embeddings", jsonHeader(), embeddings()},
		{"events", streamHeader(), strings.Repeat(chunk, 100)},
		{"one event", streamHeader(), chunk},
		{"continuous usage", streamHeader(), strings.Repeat(strings.ReplaceAll(chunk, `"usage":null`, `"usage":{"prompt_tokens":7,"completion_tokens":3}`), 100)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			part, r := []byte(c.part), newResponse(c.h)
			for b.Loop() {
				r.Take(part)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(part))*1024, "ns/KB")
		})
	}
}
