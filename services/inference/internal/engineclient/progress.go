package engineclient

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

const (
	// maxMetrics is how much of an engine's metrics is read, in bytes.
	maxMetrics = 1 << 20
	// metricsShare divides the time limit of a probe: reading the metrics may take 1/metricsShare of it.
	metricsShare = 6
)

// progress returns the sum of the counters of tokens and of decoding steps in the engine's metrics, as llama.cpp, vLLM
// and SGLang report them at /metrics. ok is false if the engine reports none. Counters of requests are ignored, because
// they also grow when a hung engine drops a call.
func (c *Client) progress(ctx context.Context, t Target, within time.Duration) (sum float64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, within/metricsShare)
	defer cancel()
	conn, err := c.dial(ctx, t.Engine)
	if err != nil {
		return 0, false
	}
	conn.wait = (&silences{}).begin(t.Engine, c.Clock) // these bytes do not end the engine's silence
	resp, err := c.try(ctx, conn, Request{
		Method: http.MethodGet, Target: "/metrics", Header: httprelay.Header{{Name: "Authorization", Value: "Bearer " + t.APIKey.Reveal()}},
		aside: true,
	})
	if err != nil {
		return 0, false
	}
	defer func() { _ = resp.Close() }()
	if resp.Status != http.StatusOK {
		return 0, false
	}
	return sumTokens(io.LimitReader(resp, maxMetrics))
}

// sumTokens adds up the counters of tokens and decoding steps in metrics in Prometheus's text format.
func sumTokens(in io.Reader) (sum float64, found bool) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{") // without the labels
		if !countsTokens(name) {
			continue
		}
		// A label may contain spaces, so the value is what follows the labels. A timestamp may follow the value.
		rest := lines.Text()[len(name):]
		if i := strings.LastIndexByte(rest, '}'); i >= 0 {
			rest = rest[i+1:]
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if value, err := strconv.ParseFloat(fields[0], 64); err == nil {
			sum, found = sum+value, true
		}
	}
	return sum, found && lines.Err() == nil
}

func countsTokens(name string) bool {
	counter := strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_sum")
	return counter && (strings.Contains(name, "token") || strings.Contains(name, "decode"))
}
