// Package rubric keeps rubrics: by what answers are judged. A version has a number that the server gives and a
// digest over the canonical JSON of its content; the same content is the same version. A draft becomes
// published once, and what is published never changes: solution applications pin its number and its digest.
package rubric

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// SubjectKind and VersionKind name rubrics in events, audit and errors.
const (
	SubjectKind = "rubric"
	VersionKind = "rubric version"
)

// Status is where a version stands.
type Status string

// The statuses of a version.
const (
	StatusDraft     Status = "draft"
	StatusPublished Status = "published"
)

// DefaultAggregation is that of content which names none.
const DefaultAggregation = "weighted_mean"

// kindScale is the kind of criterion that has a scale.
const kindScale = "judge_scale"

// Rubric is a name with versions.
type Rubric struct {
	own.Owner

	ID          string
	Name        string
	Description string
	Current     *int32
	CreatedAt   time.Time
}

// Version is one version of a rubric.
type Version struct {
	ID          string
	RubricID    string
	Number      int32
	Status      Status
	Digest      string
	Content     Content
	CreatedAt   time.Time
	PublishedAt *time.Time
}

// Content is what a version says; its JSON is the one that the API shows.
type Content struct {
	Instructions string      `json:"instructions"`
	Criteria     []Criterion `json:"criteria"`
	Aggregation  string      `json:"aggregation"`
	PassAt       *float64    `json:"pass_at"`
}

// Criterion is one thing that is judged.
type Criterion struct {
	Key              string          `json:"key"`
	Title            string          `json:"title"`
	Description      string          `json:"description"`
	Weight           float64         `json:"weight"`
	Kind             string          `json:"kind"`
	Scale            *Scale          `json:"scale"`
	PassAt           *float64        `json:"pass_at"`
	Veto             bool            `json:"veto"`
	EvidenceRequired bool            `json:"evidence_required"`
	NAAllowed        bool            `json:"na_allowed"`
	Config           json.RawMessage `json:"config"`
}

// Scale is the range of a judged value.
type Scale struct {
	Min     float64  `json:"min"`
	Max     float64  `json:"max"`
	Anchors []Anchor `json:"anchors"`
}

// Anchor says what a value of a scale means.
type Anchor struct {
	Value       float64 `json:"value"`
	Description string  `json:"description"`
	Example     string  `json:"example"`
}

// Ref is the reference of a version.
func (r *Rubric) Ref(number int32) string {
	return ref.Ref{Kind: ref.Rubric, Project: r.Project, Name: r.Name, Version: strconv.Itoa(int(number))}.String()
}

// Check refuses content by which nothing can be scored.
func (c *Content) Check() error {
	keys, total := map[string]bool{}, 0.0
	for i := range c.Criteria {
		criterion := &c.Criteria[i]
		if keys[criterion.Key] {
			return refused("the criterion %s is there twice", criterion.Key)
		}
		keys[criterion.Key] = true
		total += criterion.Weight
		if err := criterion.check(); err != nil {
			return err
		}
	}
	if total <= 0 {
		return refused("no criterion has a weight")
	}
	return nil
}

func (c *Criterion) check() error {
	if (c.Scale != nil) != (c.Kind == kindScale) {
		return refused("the criterion %s is %s: a scale belongs to %s and to nothing else", c.Key, c.Kind, kindScale)
	}
	if c.Scale == nil {
		return nil
	}
	if c.Scale.Min >= c.Scale.Max {
		return refused("the scale of %s ends where it begins", c.Key)
	}
	for _, a := range c.Scale.Anchors {
		if a.Value < c.Scale.Min || a.Value > c.Scale.Max {
			return refused("an anchor of %s lies outside its scale", c.Key)
		}
	}
	return nil
}

// Sum is the digest of the content, and its JSON as it is kept.
func (c *Content) Sum() (digest string, raw []byte, err error) {
	if raw, err = json.Marshal(c); err != nil {
		return "", nil, fmt.Errorf("write the content of a rubric: %w", err)
	}
	if digest, err = canon.Digest(raw); err != nil {
		return "", nil, refused("%s", err)
	}
	return digest, raw, nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "rubric", format, args...)
}
