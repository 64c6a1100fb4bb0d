// Package report reads the payloads that training code reports, except metrics, and defines their limits. It promises
// that a body is either read completely or rejected with its faults and their paths. store_raw.go stores the reports
// whose JSON is stored unchanged: the environment of a run and the hardware of its nodes.
package report

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// Limits of the payloads.
const (
	maxChunks     = 100_000
	maxSamples    = 10_000
	maxParams     = 10_000
	maxParamKey   = 1024
	maxTotal      = 100_000
	maxPath       = 4096
	maxWord       = 256
	maxMessage    = 4096
	maxHardware   = 10_000
	maxNodes      = 10_000
	maxNode       = 7 << 10 // bytes of JSON: a page of nodes fits in one response
	maxDevices    = 1024
	maxDescribed  = 2048
	maxPackages   = 100_000
	maxURI        = 1024
	maxRollouts   = 10_000
	maxNumber     = 9_999 // the highest number that a rollout of a task may have
	maxParts      = 32
	maxSettings   = 64
	maxHead       = 8 << 10 // bytes of JSON in a part of an evaluation's head
	largestFigure = 1 << 53
)

// Lifecycle is a reported lifecycle event of an attempt.
type Lifecycle struct {
	RunID   string
	Rank    *int32
	Event   string
	At      time.Time
	Message string
}

// ReadLifecycle reads a lifecycle payload. The message may contain any character, so that a failed attempt can report
// its error unchanged.
func ReadLifecycle(data []byte) (*Lifecycle, error) {
	var p Lifecycle
	return &p, decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{
			"event":   func() { p.Event = r.Enum("starting", "running", "succeeded", "failed") },
			"ts":      func() { p.At = r.Time() },
			"message": func() { p.Message = value(decode.Optional(r, func() string { return r.Bounded(0, maxMessage) })) },
		}), "run_id", "event", "ts")
	})
}

// Param is one hyperparameter; Value is JSON.
type Param struct {
	Key   string
	Value []byte
}

// Hparams are hyperparameters to merge into those of the run.
type Hparams struct {
	RunID  string
	Rank   *int32
	Params []Param
}

// ReadHparams reads an hparams payload. The specification requires a flat object: its values are scalars and lists.
func ReadHparams(data []byte) (*Hparams, error) {
	var p Hparams
	return &p, decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{"params": func() {
			r.Entries(maxParams, 1, maxParamKey, func(key string) { p.Params = append(p.Params, Param{key, leaf(r)}) })
		}}), "run_id", "params")
	})
}

// leaf reads the value of a hyperparameter, which must not be an object. A client must join nested names with dots.
func leaf(r *decode.Reader) []byte {
	if r.Nested() {
		r.Wrong(fault.TypeValue, "Input should not be an object; join nested names with dots")
	}
	return r.Strict()
}

// Logs are pieces of output, in order.
type Logs struct {
	RunID  string
	Rank   *int32
	Chunks []string
}

// ReadLogs reads a logs payload. It ignores the field eof, because only the platform ends a log.
func ReadLogs(data []byte) (*Logs, error) {
	var p Logs
	return &p, decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{
			"chunks": func() { r.List(maxChunks, func(int) { p.Chunks = append(p.Chunks, r.String()) }) },
			"eof":    func() { _ = decode.Optional(r, r.Bool) },
		}), "run_id", "chunks")
	})
}

// Artifact is an output to register.
type Artifact struct {
	RunID  string
	Rank   *int32
	Kind   string
	Path   string
	Format string
	Step   *int64
	Size   *int64
}

// KindCheckpoint is the kind of artifacts from which training can resume.
const KindCheckpoint = "checkpoint"

// Kinds returns the valid kinds of artifacts.
func Kinds() []string { return []string{KindCheckpoint, "hf_export", "eval_report", "merged_model"} }

// ReadArtifact reads an artifact payload.
func ReadArtifact(data []byte) (*Artifact, error) {
	var p Artifact
	return &p, decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{
			"kind":       func() { p.Kind = r.Enum(Kinds()...) },
			"path":       func() { p.Path = r.Text(1, maxPath) },
			"format":     func() { p.Format = r.Text(1, maxWord) },
			"step":       func() { p.Step = decode.Optional(r, r.Int) },
			"size_bytes": func() { p.Size = decode.Optional(r, func() int64 { return r.IntIn(0, largestFigure) }) },
		}), "run_id", "kind", "path", "format")
	})
}

// with adds the fields that every payload has, run_id and rank.
func with(r *decode.Reader, runID *string, rank **int32, fields decode.Fields) decode.Fields {
	fields["run_id"] = func() { *runID = r.RunID() }
	fields["rank"] = func() { *rank = r.Rank() }
	return fields
}

func value[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}
