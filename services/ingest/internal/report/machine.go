package report

import (
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// HardwarePoint is one sample: the value that one measure of one device had at one time.
type HardwarePoint struct {
	// Node and GPU are empty if the report does not contain them. A GPU number is stored as decimal digits.
	Node, GPU, Key string
	At             time.Time
	Value          float64
}

// Hardware is a hardware payload.
type Hardware struct {
	RunID  string
	Rank   *int32
	Points []HardwarePoint
}

// ReadHardware reads a hardware payload.
func ReadHardware(data []byte) (*Hardware, error) {
	var p Hardware
	return &p, decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{"points": func() {
			r.List(maxHardware, func(int) { p.Points = append(p.Points, hardware(r)) })
		}}), "run_id", "points")
	})
}

func hardware(r *decode.Reader) HardwarePoint {
	var p HardwarePoint
	r.Object(decode.Fields{
		"ts":    func() { p.At = r.Time() },
		"node":  func() { p.Node = word(r, maxWord) },
		"gpu":   func() { p.GPU = label(r) },
		"key":   func() { p.Key = r.Text(1, maxWord) },
		"value": func() { p.Value = r.Float() },
	}, "ts", "key", "value")
	return p
}

// label reads an integer or a string and returns it as a string. For null it returns the empty string.
func label(r *decode.Reader) string {
	if r.Null() {
		return ""
	}
	if r.Quoted() {
		return r.Text(0, maxWord)
	}
	return strconv.FormatInt(r.Int(), 10)
}

// word reads an optional text of at most the given number of characters. For null it returns the empty string.
func word(r *decode.Reader, most int) string {
	return value(decode.Optional(r, func() string { return r.Text(0, most) }))
}

// Item is one element of a payload that is stored unchanged. Key identifies the item within its stream and attempt.
// Body is JSON.
type Item struct {
	Key  string
	Body []byte
	// Attempt is the attempt that reported the item. If it is 0, that is the newest attempt, since only it may report.
	Attempt int32
}

// Records is a payload that is stored unchanged: the environment or the nodes of a run.
type Records struct {
	RunID string
	Rank  *int32
	Items []Item
}

// ReadEnvironment reads an environment payload: the software and hardware that a run uses.
func ReadEnvironment(data []byte) (*Records, error) {
	var p Records
	return &p, decode.Body(data, func(r *decode.Reader) {
		p.Items = []Item{{Key: Environment, Body: r.Span(func() { environment(r, &p) })}}
	})
}

func environment(r *decode.Reader, p *Records) {
	described := func() { word(r, maxDescribed) }
	r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{
		"python": described, "cuda": described, "driver": described, "nccl": described, "os": described,
		"packages": func() {
			if !r.Null() {
				r.Entries(maxPackages, 1, maxWord, func(string) { described() })
			}
		},
		"gpus": func() { devices(r) },
		"git": func() {
			if !r.Null() {
				r.Map(func(string) { r.Skip() })
			}
		},
	}), "run_id")
}

func devices(r *decode.Reader) {
	if !r.Null() {
		r.List(maxDevices, func(int) { r.Skip() })
	}
}

// ReadNodes reads the hardware of each node of a run, one item per rank.
func ReadNodes(data []byte) (*Records, error) {
	var p Records
	return &p, decode.Body(data, func(r *decode.Reader) {
		seen := map[int64]bool{}
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{"nodes": func() {
			r.List(maxNodes, func(int) {
				var rank int64
				before := r.Faults()
				body := short(r, maxNode, func() { rank = node(r) })
				if seen[rank] && r.Faults() == before {
					r.Wrong(fault.TypeValue, "Input should list each rank once", "rank")
				}
				seen[rank] = true
				p.Items = append(p.Items, Item{Key: strconv.FormatInt(rank, 10), Body: body})
			})
		}}), "run_id", "nodes")
	})
}

func node(r *decode.Reader) (rank int64) {
	r.Object(decode.Fields{
		"rank":   func() { rank = r.IntIn(0, decode.MaxRank) },
		"host":   func() { r.Text(1, maxWord) },
		"gpus":   func() { devices(r) },
		"ib":     func() { devices(r) },
		"cpu":    func() { r.Skip() },
		"mem_gb": func() { decode.Optional(r, func() float64 { return notNegative(r) }) },
	}, "rank", "host")
	return rank
}

// short reads a value that is stored unchanged and returns its JSON. JSON that is longer than the given maximum is a
// fault, because the value must fit into one response.
func short(r *decode.Reader, most int, read func()) []byte {
	body := r.Span(read)
	if len(body) > most {
		r.Wrong(fault.TypeLong, "Input should be at most "+strconv.Itoa(most)+" bytes of JSON")
	}
	return body
}
