package traffic

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// rollupKey identifies a rollup. An empty token stands for all tokens.
type rollupKey struct {
	deployment, token string
	revision          int32
	width             time.Duration
	at                int64 // in seconds of Unix time
}

// rollup summarizes the calls of a minute or of an hour. Its point has only sums.
type rollup struct {
	Point

	ttft, duration []int32 // the bucket of each call that has the value, in any order
}

// rollUp returns the rollups of calls.
func rollUp(calls []*Call) map[rollupKey]*rollup {
	minutes := map[rollupKey]*rollup{}
	var key rollupKey
	var r *rollup // the rollup with this key
	for _, c := range calls {
		at := c.At.Truncate(time.Minute).Unix()
		if of := (rollupKey{c.DeploymentID, c.TokenID, c.RevisionNumber, time.Minute, at}); r == nil || of != key {
			key, r = of, rollupOf(minutes, of)
		}
		r.count(c)
	}
	all := make(map[rollupKey]*rollup, 4*len(minutes))
	for minute, sums := range minutes {
		hour := minute
		hour.width, hour.at = time.Hour, time.Unix(minute.at, 0).Truncate(time.Hour).Unix()
		for _, key := range []rollupKey{minute, hour} {
			rollupOf(all, key).merge(sums)
			if key.token != "" {
				key.token = ""
				rollupOf(all, key).merge(sums)
			}
		}
	}
	return all
}

// rollupOf returns the rollup with the given key. It adds the rollup to the map if it is missing.
func rollupOf(all map[rollupKey]*rollup, key rollupKey) *rollup {
	r := all[key]
	if r == nil {
		r = &rollup{}
		all[key] = r
	}
	return r
}

// count adds a call.
func (r *rollup) count(c *Call) {
	one := Point{Calls: 1, RequestBytes: c.RequestBytes, ResponseBytes: c.ResponseBytes}
	switch c.Outcome {
	case OK:
		one.OK = 1
	case ClientClosed:
		one.ClientClosed = 1
	case ClientError:
		one.ClientError = 1
	}
	if c.PromptTokens != nil {
		one.PromptTokens = int64(*c.PromptTokens)
	}
	if c.CompletionTokens != nil {
		one.CompletionTokens = int64(*c.CompletionTokens)
	}
	r.Point.add(one)
	if c.TTFT != nil {
		r.ttft = append(r.ttft, bucketOf(*c.TTFT))
	}
	r.duration = append(r.duration, bucketOf(c.Duration))
}

// merge adds the sums of q.
func (r *rollup) merge(q *rollup) {
	r.Point.add(q.Point)
	r.ttft = append(r.ttft, q.ttft...)
	r.duration = append(r.duration, q.duration...)
}

// bucketOf returns the bucket of a time in milliseconds, like call_bucket in the migrations.
func bucketOf(ms float64) int32 {
	if ms <= leastBucket {
		return 0
	}
	if bucket := math.Ceil(math.Log(ms/leastBucket) / math.Log(bucketGrowth)); bucket < lastBucket {
		return int32(bucket)
	}
	return lastBucket
}

// histogramOf returns the histogram of buckets as an array of SQL, or nil without buckets. It sorts the buckets.
func histogramOf(buckets []int32) *string {
	if len(buckets) == 0 {
		return nil
	}
	slices.Sort(buckets)
	pairs := make([]byte, 0, 16*len(buckets))
	for from, to := 0, 0; from < len(buckets); from = to {
		for to < len(buckets) && buckets[to] == buckets[from] {
			to++
		}
		pairs = strconv.AppendInt(append(pairs, ",{"...), int64(buckets[from]), 10)
		pairs = append(strconv.AppendInt(append(pairs, ','), int64(to-from), 10), '}')
	}
	pairs[0] = '{'
	text := string(append(pairs, '}'))
	return &text
}

// addRollups adds rollups to the table, in the order of their key, so that replicas wait for each other and do not
// deadlock. The trigger of call does the same.
const addRollups = `INSERT INTO call_rollup AS r (deployment_id, token_id, width_s, at, revision_number, calls, ok, client_closed,
	client_error, prompt_tokens, completion_tokens, request_bytes, response_bytes, ttft, duration)
	SELECT deployment_id, token_id, width_s, at, revision_number, calls, ok, client_closed, client_error, prompt_tokens, completion_tokens,
		request_bytes, response_bytes, ttft::integer[], duration::integer[]
	FROM unnest(@deployments::text[], @tokens::text[], @widths::integer[], @ats::timestamptz[], @revisions::integer[], @calls::bigint[],
		@oks::bigint[], @closed::bigint[], @errors::bigint[], @prompts::bigint[], @completions::bigint[], @requests::bigint[],
		@responses::bigint[], @ttfts::text[], @durations::text[]) AS added (deployment_id, token_id, width_s, at, revision_number, calls,
		ok, client_closed, client_error, prompt_tokens, completion_tokens, request_bytes, response_bytes, ttft, duration)
	ORDER BY deployment_id, token_id, width_s, at, revision_number
	ON CONFLICT (deployment_id, token_id, width_s, at, revision_number) DO UPDATE SET
		calls = r.calls + excluded.calls, ok = r.ok + excluded.ok, client_closed = r.client_closed + excluded.client_closed,
		client_error = r.client_error + excluded.client_error,
		prompt_tokens = r.prompt_tokens + excluded.prompt_tokens, completion_tokens = r.completion_tokens + excluded.completion_tokens,
		request_bytes = r.request_bytes + excluded.request_bytes, response_bytes = r.response_bytes + excluded.response_bytes,
		ttft = add_call_histograms(r.ttft, excluded.ttft), duration = add_call_histograms(r.duration, excluded.duration)`

// addToRollups adds calls to the rollups in the table.
func addToRollups(ctx context.Context, tx pgx.Tx, calls []*Call) error {
	if _, err := tx.Exec(ctx, addRollups, rollupArgs(rollUp(calls))); err != nil {
		return fmt.Errorf("add %d calls to the rollups: %w", len(calls), err)
	}
	return nil
}

// rollupArgs returns the arguments of addRollups.
func rollupArgs(all map[rollupKey]*rollup) pgx.NamedArgs {
	n := len(all)
	deployments, tokens := make([]string, 0, n), make([]string, 0, n)
	widths, ats, revisions := make([]int32, 0, n), make([]time.Time, 0, n), make([]int32, 0, n)
	ttfts, durations := make([]*string, 0, n), make([]*string, 0, n)
	var sums [8][]int64
	for key, r := range all {
		deployments, tokens = append(deployments, key.deployment), append(tokens, key.token)
		widths, ats = append(widths, int32(key.width.Seconds())), append(ats, time.Unix(key.at, 0))
		revisions = append(revisions, key.revision)
		for i, sum := range [len(sums)]int64{
			r.Calls, r.OK, r.ClientClosed, r.ClientError, r.PromptTokens, r.CompletionTokens, r.RequestBytes, r.ResponseBytes,
		} {
			sums[i] = append(sums[i], sum)
		}
		ttfts, durations = append(ttfts, histogramOf(r.ttft)), append(durations, histogramOf(r.duration))
	}
	return pgx.NamedArgs{
		"deployments": deployments, "tokens": tokens, "widths": widths, "ats": ats, "revisions": revisions, "calls": sums[0], "oks": sums[1],
		"closed": sums[2], "errors": sums[3], "prompts": sums[4], "completions": sums[5], "requests": sums[6], "responses": sums[7],
		"ttfts": ttfts, "durations": durations,
	}
}
