package report

import (
	"strconv"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// Item is one row that a payload becomes: Key tells it from the others of its stream and attempt, empty
// where there is nothing to tell apart by. Body is JSON.
type Item struct {
	Key  string
	Body []byte
}

// Records is a payload that is kept as it came: hardware, environment, nodes or benchmark.
type Records struct {
	RunID string
	Items []Item
}

// ReadHardware reads sampled points of the machines; the points of a request stay together.
func ReadHardware(data []byte) (*Records, error) {
	var p Records
	return &p, decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, decode.Fields{"points": func() {
			p.Items = []Item{{Body: r.Span(func() { r.List(maxHardware, func(int) { hardware(r) }) })}}
		}}), "run_id", "points")
	})
}

func hardware(r *decode.Reader) {
	r.Object(decode.Fields{
		"ts":    func() { r.Time() },
		"node":  func() { word(r) },
		"gpu":   func() { label(r) },
		"key":   func() { r.Text(1, maxWord) },
		"value": func() { r.Float() },
	}, "ts", "key", "value")
}

// label reads what names a device: a number or a string.
func label(r *decode.Reader) {
	if r.Null() {
		return
	}
	if r.Quoted() {
		r.Text(0, maxWord)
		return
	}
	r.Int()
}

// ReadEnvironment reads the static picture of where a run runs.
func ReadEnvironment(data []byte) (*Records, error) {
	var p Records
	return &p, decode.Body(data, func(r *decode.Reader) {
		p.Items = []Item{{Key: "environment", Body: r.Span(func() { environment(r, &p.RunID) })}}
	})
}

func environment(r *decode.Reader, runID *string) {
	r.Object(with(r, runID, decode.Fields{
		"python": func() { word(r) },
		"cuda":   func() { word(r) },
		"driver": func() { word(r) },
		"nccl":   func() { word(r) },
		"os":     func() { word(r) },
		"packages": func() {
			if !r.Null() {
				r.Entries(maxPackages, 1, maxWord, func(string) { word(r) })
			}
		},
		"gpus": func() { anyList(r) },
		"git": func() {
			if !r.Null() {
				r.Map(func(string) { r.Skip() })
			}
		},
	}), "run_id")
}

func word(r *decode.Reader) {
	if !r.Null() {
		r.Text(0, maxDescribed)
	}
}

func anyList(r *decode.Reader) {
	if !r.Null() {
		r.List(maxNodes, func(int) { r.Skip() })
	}
}

// ReadNodes reads the hardware of each node of a run, an item a rank.
func ReadNodes(data []byte) (*Records, error) {
	var p Records
	return &p, decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, decode.Fields{"nodes": func() {
			r.List(maxNodes, func(int) {
				var rank int64
				body := r.Span(func() { rank = node(r) })
				p.Items = append(p.Items, Item{Key: strconv.FormatInt(rank, 10), Body: body})
			})
		}}), "run_id", "nodes")
	})
}

func node(r *decode.Reader) (rank int64) {
	r.Object(decode.Fields{
		"rank":   func() { rank = r.IntIn(0, decode.MaxRank) },
		"host":   func() { r.Text(0, maxWord) },
		"gpus":   func() { anyList(r) },
		"ib":     func() { anyList(r) },
		"cpu":    func() { r.Skip() },
		"mem_gb": func() { decode.Optional(r, r.Float) },
	}, "rank", "host")
	return rank
}

// ReadBenchmark reads a score that was produced elsewhere.
func ReadBenchmark(data []byte) (*Records, error) {
	var p Records
	return &p, decode.Body(data, func(r *decode.Reader) {
		p.Items = []Item{{Body: r.Span(func() {
			r.Object(with(r, &p.RunID, decode.Fields{
				"name":          func() { r.Text(1, maxWord) },
				"version":       func() { label(r) },
				"metric":        func() { r.Text(1, maxWord) },
				"value":         func() { r.Float() },
				"n":             func() { decode.Optional(r, func() int64 { return r.IntIn(0, largestFigure) }) },
				"stderr":        func() { decode.Optional(r, r.Float) },
				"config_digest": func() { word(r) },
				"samples_uri":   func() { word(r) },
			}), "run_id", "name", "metric", "value")
		})}}
	})
}
