package report

import (
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// Evaluation describes the agent evaluation that a run performs. No field is meant for the text of a task: names are
// short, digests have a fixed format and settings are flat.
type Evaluation struct {
	// Head maps the name of each part to its JSON. Responses contain these parts unchanged.
	Head map[string][]byte
	// TasksTotal and RolloutsPerTask are nil if they are not reported.
	TasksTotal, RolloutsPerTask *int64
	// PassReward is the lowest reward that counts as passed, for rollouts that do not report whether they passed.
	PassReward *float64
}

// Rollout is one try of an agent at a task.
type Rollout struct {
	Task   string
	Number int32
	// Reward is nil if Masked is true.
	Reward *float64
	Passed *bool
	// Masked means that the infrastructure failed, so that the rollout does not measure the agent.
	Masked                         bool
	Parts                          []byte // JSON, or nil if not reported
	Group, Stop, Error, Trace      string
	Turns, ToolCalls               *int64
	PromptTokens, CompletionTokens *int64
	Cost, Seconds                  *float64
}

// shape is a check of a string, with a description of the valid strings for error messages.
type shape struct {
	fits func(s string) bool
	want string
}

// made returns the shape of a string that has low to high bytes and contains only the given characters. The parameter
// want describes the valid strings.
func made(low, high int, chars, want string) shape {
	return shape{func(s string) bool {
		return len(s) >= low && len(s) <= high && strings.Trim(s, chars) == ""
	}, want}
}

const (
	hexDigits = "0123456789abcdef"
	letters   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	others    = "!\"#$%&'()*+,;<=>?@[\\]^`{|}~"
)

// Strings of the shapes below are too short or too restricted for the text of a task.

func opaque() shape {
	return made(16, 64, hexDigits, "an opaque key of 16 to 64 lower-case hex digits")
}

func short64() shape {
	return made(1, 64, letters+"_.:/-", "1 to 64 letters, digits and _ . : / -")
}

func address() shape {
	return made(1, maxURI, letters+"_.:/-"+others, "1 to 1024 visible ASCII characters")
}

func digestShape() shape {
	return shape{func(s string) bool {
		rest, found := strings.CutPrefix(s, "sha256:")
		return found && made(64, 64, hexDigits, "").fits(rest)
	}, "sha256: followed by 64 lower-case hex digits"}
}

// like reads a string, and adds a fault if the string does not have the given shape.
func like(r *decode.Reader, s shape) string {
	before := r.Faults()
	text := r.String()
	if r.Faults() == before && !s.fits(text) {
		r.Wrong(fault.TypeStringPattern, "Input should be "+s.want)
	}
	return text
}

// evaluation reads the description of an evaluation.
func evaluation(r *decode.Reader) Evaluation {
	e := Evaluation{Head: map[string][]byte{}}
	part := func(name string, read func()) func() {
		return func() {
			if !r.Null() {
				e.Head[name] = short(r, maxHead, read)
			}
		}
	}
	name := func() { word(r, maxWord) }
	digest := func() {
		decode.Optional(r, func() string { return like(r, digestShape()) })
	}
	r.Object(decode.Fields{
		"model":             part("model", func() { r.Object(decode.Fields{"version": name, "revision": name, "digest": digest}) }),
		"environment":       part("environment", func() { r.Object(decode.Fields{"name": name, "version": name, "digest": digest}) }),
		"rubric":            part("rubric", func() { r.Object(decode.Fields{"id": name, "version": name, "digest": digest}) }),
		"taskset_digest":    part("taskset_digest", digest),
		"harness":           part("harness", func() { settings(r) }),
		"sampling":          part("sampling", func() { settings(r) }),
		"tasks_total":       func() { e.TasksTotal = figure(r, maxTotal) },
		"rollouts_per_task": func() { e.RolloutsPerTask = decode.Optional(r, func() int64 { return r.IntIn(1, maxNumber+1) }) },
		"pass_reward":       func() { e.PassReward = decode.Optional(r, func() float64 { return finite(r) }) },
	})
	return e
}

// settings reads a flat object of scalars.
func settings(r *decode.Reader) {
	r.Entries(maxSettings, 1, maxWord, func(string) {
		switch {
		case r.Null():
		case r.Quoted():
			r.Text(0, maxWord)
		case r.Nested(), r.Listed():
			r.Wrong(fault.TypeValue, "Input should be a string, a number, true, false or null")
			r.Skip()
		default:
			r.Skip()
		}
	})
}

// rollouts reads a list of rollouts. The result is never nil.
func rollouts(r *decode.Reader) []Rollout {
	out := []Rollout{}
	type name struct {
		task   string
		number int32
	}
	seen := map[name]bool{}
	r.List(maxRollouts, func(int) {
		before := r.Faults()
		one := rollout(r)
		if r.Faults() == before && seen[name{one.Task, one.Number}] {
			r.Wrong(fault.TypeValue, "Input should list each rollout of a task once", "rollout")
		}
		seen[name{one.Task, one.Number}] = true
		out = append(out, one)
	})
	return out
}

func rollout(r *decode.Reader) Rollout {
	var p Rollout
	text := func(into *string, s shape) func() {
		return func() { *into = value(decode.Optional(r, func() string { return like(r, s) })) }
	}
	count := func(into **int64) func() { return func() { *into = figure(r, largestCount) } }
	amount := func(into **float64) func() {
		return func() { *into = decode.Optional(r, func() float64 { return notNegative(r) }) }
	}
	before := r.Faults()
	r.Object(decode.Fields{
		"task":              func() { p.Task = like(r, opaque()) },
		"rollout":           func() { p.Number = int32(r.IntIn(0, maxNumber)) },
		"reward":            func() { p.Reward = decode.Optional(r, func() float64 { return finite(r) }) },
		"passed":            func() { p.Passed = decode.Optional(r, r.Bool) },
		"masked":            func() { p.Masked = value(decode.Optional(r, r.Bool)) },
		"parts":             func() { p.Parts = parts(r) },
		"group":             text(&p.Group, short64()),
		"error":             text(&p.Error, short64()),
		"stop":              func() { p.Stop = value(decode.Optional(r, func() string { return r.Enum(StopReasons()...) })) },
		"trace":             text(&p.Trace, address()),
		"turns":             func() { p.Turns = figure(r, maxFew) },
		"tool_calls":        func() { p.ToolCalls = figure(r, maxFew) },
		"prompt_tokens":     count(&p.PromptTokens),
		"completion_tokens": count(&p.CompletionTokens),
		"cost":              amount(&p.Cost),
		"seconds":           amount(&p.Seconds),
	}, "task", "rollout")
	if r.Faults() == before {
		scored(r, &p)
	}
	return p
}

// StopReasons returns the reasons for which a rollout can end.
func StopReasons() []string {
	return []string{"done", "max_tokens", "max_turns", "timeout", "stopped", "error"}
}

// Maximum values of the numbers in a rollout. They ensure that sums over a run do not overflow.
const (
	largestCount = 1 << 40
	maxFew       = 1 << 20
	largestSum   = 1e12
)

// scored checks a rollout. A masked rollout must have an error, but neither reward nor passed; any other rollout must
// have a reward.
func scored(r *decode.Reader, p *Rollout) {
	switch {
	case p.Masked && p.Error == "":
		r.Wrong(fault.TypeMissing, "Field required if masked is true", "error")
	case p.Masked && p.Reward != nil:
		r.Wrong(fault.TypeValue, "Input should be null if masked is true", "reward")
	case p.Masked && p.Passed != nil:
		r.Wrong(fault.TypeValue, "Input should be null if masked is true", "passed")
	case !p.Masked && p.Reward == nil:
		r.Wrong(fault.TypeMissing, "Field required unless masked is true", "reward")
	}
}

// parts reads the named parts of a reward and returns their JSON. For null it returns nil.
func parts(r *decode.Reader) []byte {
	if r.Null() {
		return nil
	}
	return r.Span(func() {
		r.Entries(maxParts, 1, maxWord, func(name string) {
			if s := short64(); !s.fits(name) {
				r.Wrong(fault.TypeStringPattern, "Name should be "+s.want)
			}
			finite(r)
		})
	})
}

// notNegative reads a number from 0 to largestSum.
func notNegative(r *decode.Reader) float64 {
	before := r.Faults()
	v := finite(r)
	if r.Faults() == before && (v < 0 || v > largestSum) {
		r.Wrong(fault.TypeGreaterThanEqual, "Input should be between 0 and 1e12")
	}
	return v
}
