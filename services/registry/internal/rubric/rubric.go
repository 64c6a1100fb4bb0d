// Package rubric owns rubrics, the criteria by which model responses are scored. A version has a number assigned by the
// server and a digest of the canonical JSON of its content. Storing the same content again returns the same version. A
// draft is published once, and a published version never changes: solution applications pin its number and its digest.
package rubric

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// SubjectKind and VersionKind are the kinds of rubrics and their versions in events, audit entries and errors.
const (
	SubjectKind = "rubric"
	VersionKind = "rubric version"
)

// Status is the status of a version.
type Status string

// The statuses of a version.
const (
	StatusDraft     Status = "draft"
	StatusPublished Status = "published"
)

// DefaultAggregation is the aggregation of content that states no aggregation.
const DefaultAggregation = "weighted_mean"

// kindScale is the kind of criterion that has a scale.
const kindScale = "judge_scale"

// Rubric is a named collection of versions.
type Rubric struct {
	access.Owner

	ID          string
	Name        string
	Description string
	Current     *int32 `db:"current_version"`
	CreatedAt   time.Time
}

// Version is one version of a rubric.
type Version struct {
	ID          string
	RubricID    string
	Number      int32 `db:"version"`
	Status      Status
	Digest      string
	Content     Content
	CreatedAt   time.Time
	PublishedAt *time.Time
}

// Content is the content of a version. The API returns its JSON encoding.
type Content struct {
	Instructions string      `json:"instructions"`
	Criteria     []Criterion `json:"criteria"`
	Aggregation  string      `json:"aggregation"`
	PassAt       *float64    `json:"pass_at"`
}

// Criterion is one aspect that is scored.
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

// Scale is the range of the values of a criterion.
type Scale struct {
	Min     float64  `json:"min"`
	Max     float64  `json:"max"`
	Anchors []Anchor `json:"anchors"`
}

// Anchor describes the meaning of one value of a scale.
type Anchor struct {
	Value       float64 `json:"value"`
	Description string  `json:"description"`
	Example     string  `json:"example"`
}

// Ref returns the reference of a version.
func (r *Rubric) Ref(number int32) string {
	return ref.Ref{Kind: ref.Rubric, Project: r.Project, Name: r.Name, Version: strconv.Itoa(int(number))}.String()
}

// Check rejects content that cannot be used for scoring.
func (c *Content) Check() error {
	keys, total := map[string]bool{}, 0.0
	for i := range c.Criteria {
		criterion := &c.Criteria[i]
		if keys[criterion.Key] {
			return refused("duplicate criterion %s", criterion.Key)
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
		return refused("criterion %s is of kind %s; a scale is required for kind %s and not allowed for others", c.Key, c.Kind, kindScale)
	}
	if c.Scale == nil {
		return nil
	}
	if c.Scale.Min >= c.Scale.Max {
		return refused("the scale of criterion %s needs a maximum above its minimum", c.Key)
	}
	for _, a := range c.Scale.Anchors {
		if a.Value < c.Scale.Min || a.Value > c.Scale.Max {
			return refused("an anchor of criterion %s is outside its scale", c.Key)
		}
	}
	return nil
}

// Sum returns the digest of the content and the JSON that is stored.
func (c *Content) Sum() (digest string, raw []byte, err error) {
	if raw, err = json.Marshal(c); err != nil {
		return "", nil, fmt.Errorf("encode the content of a rubric: %w", err)
	}
	if digest, err = canon.Digest(raw); err != nil {
		return "", nil, refused("%s", err)
	}
	return digest, raw, nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "rubric", format, args...)
}
