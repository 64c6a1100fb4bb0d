package report

import (
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// Evaluation is what a run says of the evaluation of an agent that it makes. Nothing in it has room for
// what a task says: names are short, digests are digests, settings are flat.
type Evaluation struct {
	// Head is the parts that are shown as they came, by name; each is JSON.
	Head map[string][]byte
	// TasksTotal and RolloutsPerTask are nil where they are not told.
	TasksTotal, RolloutsPerTask *int64
	// PassReward is the least reward with which a task is solved, where a rollout does not say it.
	PassReward *float64
}

// Rollout is one try of an agent at a task.
type Rollout struct {
	Task   string
	Number int32
	// Reward is nil where Masked.
	Reward *float64
	Passed *bool
	// Masked says that the infrastructure failed: the try tells nothing of the agent.
	Masked                         bool
	Parts                          []byte // JSON, nil for none
	Group, Stop, Error, Trace      string
	Turns, ToolCalls               *int64
	PromptTokens, CompletionTokens *int64
	Cost, Seconds                  *float64
}

// shape tells whether a string looks like what is wanted, in these words.
type shape struct {
	fits func(s string) bool
	want string
}

// made is a shape of so many characters of a set.
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

// The shapes of an evaluation's words: none has room for what a task says.
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
	}, "sha256: and 64 lower-case hex digits"}
}

// like reads a string of a shape.
func like(r *decode.Reader, s shape) string {
	before := r.Faults()
	text := r.String()
	if r.Faults() == before && !s.fits(text) {
		r.Wrong(fault.TypeStringPattern, "Input should be "+s.want)
	}
	return text
}

// evaluation reads the head of an evaluation.
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

// rollouts reads some of an evaluation's rollouts; never nil.
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
			r.Wrong(fault.TypeValue, "A task should have each rollout once", "rollout")
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
		"stop":              func() { p.Stop = value(decode.Optional(r, func() string { return r.Enum(Stops()...) })) },
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

// Stops are why a rollout ends.
func Stops() []string {
	return []string{"done", "max_tokens", "max_turns", "timeout", "stopped", "error"}
}

// Bounds of what a rollout counts, so that sums over a run fit their types.
const (
	largestCount = 1 << 40
	maxFew       = 1 << 20
	largestSum   = 1e12
)

// scored holds a rollout to its rule: it has a reward, or it is masked and says by which error.
func scored(r *decode.Reader, p *Rollout) {
	switch {
	case p.Masked && p.Error == "":
		r.Wrong(fault.TypeMissing, "Field required beside masked", "error")
	case p.Masked && p.Reward != nil:
		r.Wrong(fault.TypeValue, "A masked rollout has no reward", "reward")
	case p.Masked && p.Passed != nil:
		r.Wrong(fault.TypeValue, "A masked rollout neither passes nor fails", "passed")
	case !p.Masked && p.Reward == nil:
		r.Wrong(fault.TypeMissing, "Field required unless masked", "reward")
	}
}

// parts reads the parts of a reward.
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

// notNegative reads a finite number of at least 0.
func notNegative(r *decode.Reader) float64 {
	before := r.Faults()
	v := finite(r)
	if r.Faults() == before && (v < 0 || v > largestSum) {
		r.Wrong(fault.TypeGreaterThanEqual, "Input should be from 0 to 1e12")
	}
	return v
}
