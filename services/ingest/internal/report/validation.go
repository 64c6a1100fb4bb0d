package report

import (
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// Sample is one conversation of a validation round. All fields except Reward are JSON, or nil if not reported.
type Sample struct {
	User, Assistant, Env, Extra []byte
	Reward                      *float64
}

// Validation is one chunk of a validation round.
type Validation struct {
	RunID     string
	Rank      *int32 // of the reporting process; nil for 0
	Step      int64
	Samples   []Sample
	AvgReward *float64
	Accuracy  *float64
	Chunk     int32
	Total     int32
}

// ReadValidation reads a validation payload. A round without total_chunks is a single chunk.
func ReadValidation(data []byte) (*Validation, error) {
	p := Validation{Total: 1}
	var chunk, total *int64
	err := decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{
			"step":         func() { p.Step = r.Int() },
			"samples":      func() { r.List(maxSamples, func(int) { p.Samples = append(p.Samples, sample(r)) }) },
			"avg_reward":   func() { p.AvgReward = decode.Optional(r, r.Float) },
			"accuracy":     func() { p.Accuracy = decode.Optional(r, r.Float) },
			"chunk_index":  func() { chunk = decode.Optional(r, func() int64 { return r.IntIn(0, maxTotal-1) }) },
			"total_chunks": func() { total = decode.Optional(r, func() int64 { return r.IntIn(1, maxTotal) }) },
		}), "run_id", "step", "samples")
		if total == nil && chunk != nil {
			r.Wrong(fault.TypeMissing, "Field required if chunk_index is set", "total_chunks")
		}
		if chunk == nil && value(total) > 1 { // with a default of 0, each chunk would replace the previous one
			r.Wrong(fault.TypeMissing, "Field required if total_chunks is greater than 1", "chunk_index")
		}
		if total != nil && value(chunk) >= *total {
			r.Wrong(fault.TypeValue, "chunk_index should be less than total_chunks", "chunk_index")
		}
	})
	if total != nil {
		p.Total = int32(*total)
	}
	p.Chunk = int32(value(chunk))
	return &p, err
}

func sample(r *decode.Reader) Sample {
	var s Sample
	r.Object(decode.Fields{
		"user":      func() { s.User = given(r) },
		"assistant": func() { s.Assistant = given(r) },
		"env":       func() { s.Env = given(r) },
		"reward":    func() { s.Reward = decode.Optional(r, r.Float) },
		"extra": func() {
			if !r.Null() {
				s.Extra = r.Span(func() { r.Map(func(string) { r.Skip() }) })
			}
		},
	})
	return s
}

// given reads any JSON value. For null it returns nil.
func given(r *decode.Reader) []byte {
	if r.Null() {
		return nil
	}
	return r.Raw()
}
