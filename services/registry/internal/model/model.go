// Package model owns the models and their versions, which are registered from the artifacts of runs. A version consists
// of the bytes of one artifact, identified by their digest, and the facts that the file header states. A version's
// bytes never change, and registering the same bytes again gives the same version.
package model

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// SubjectKind and VersionKind are the kinds of models and their versions in events, audit entries and errors.
const (
	SubjectKind = "model"
	VersionKind = "model version"
)

// DefaultTask is the task of a model that is created without one.
const DefaultTask = "chat"

// The formats of weights.
const (
	FormatGGUF        = "gguf"
	FormatSafetensors = "safetensors"
)

// Status is whether a version can be used.
type Status string

// The statuses of a version.
const (
	StatusReady    Status = "ready"
	StatusRejected Status = "rejected"
)

// The lifecycle of a version: it begins as a candidate, and at most one version of a model is in production.
const (
	lifecycleCandidate  = "candidate"
	lifecycleProduction = "production"
	lifecycleArchived   = "archived"
)

// Model is a named series of versions.
type Model struct {
	access.Owner

	ID          string
	Name        string
	Description string
	Task        string
	Latest      *int32 `db:"latest_version"`
	Aliases     map[string]int32
	// RowVersion is incremented by every change of the model itself.
	RowVersion int64
	CreatedAt  time.Time
}

// Version is one version of a model.
type Version struct {
	ID           string
	ModelID      string
	Number       int32 `db:"version"`
	Status       Status
	StatusReason string
	Lifecycle    string
	RunID        string
	ArtifactID   string
	Format       string
	Digest       string
	Size         int64 `db:"size_bytes"`
	// URI is the location of the bytes, File their file name, Packed whether they are a tar file of a folder.
	URI       string
	File      string
	Packed    bool
	Facts     json.RawMessage
	CreatedAt time.Time
	// CardDigest is the digest of the newest card, or nil if the model has no card.
	CardDigest *string
	// PromotedBy is the user who last put the version into production.
	PromotedBy *string
	PromotedAt *time.Time
}

// Artifact is an output of a run as ingest describes it.
type Artifact struct {
	ID, RunID, Kind, Format, Path string
	Size                          int64
	SHA256                        string
	URI                           string
	Packed                        bool
}

// Ref returns the reference of a version.
func (m *Model) Ref(number int32) string {
	return ref.Ref{Kind: ref.Model, Project: m.Project, Name: m.Name, Version: strconv.Itoa(int(number))}.String()
}
