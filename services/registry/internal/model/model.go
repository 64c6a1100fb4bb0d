// Package model registers what runs made. A version is the bytes of one artifact, named by their digest,
// with what their own header says of them; it never changes, and the same bytes are the same version.
package model

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// SubjectKind and VersionKind name models in events, audit and errors.
const (
	SubjectKind = "model"
	VersionKind = "model version"
)

// DefaultTask is that of a model whose maker names none.
const DefaultTask = "chat"

// The formats of weights.
const (
	FormatGGUF        = "gguf"
	FormatSafetensors = "safetensors"
)

// Status says whether a version can be used.
type Status string

// The statuses of a version.
const (
	StatusReady    Status = "ready"
	StatusRejected Status = "rejected"
)

// The lifecycle of a version: every one begins as a candidate, and at most one of a model is in production.
const (
	lifecycleCandidate  = "candidate"
	lifecycleProduction = "production"
	lifecycleArchived   = "archived"
)

// Model is a name with versions.
type Model struct {
	own.Owner

	ID          string
	Name        string
	Description string
	Task        string
	Latest      *int32
	Aliases     map[string]int32
	// RowVersion is raised with every change of the model itself.
	RowVersion int64
	CreatedAt  time.Time
}

// Version is one version of a model.
type Version struct {
	ID           string
	ModelID      string
	Number       int32
	Status       Status
	StatusReason string
	Lifecycle    string
	RunID        string
	ArtifactID   string
	Format       string
	Digest       string
	Size         int64
	// URI is where the bytes are, File what they are called, Packed whether they are a tar of a folder.
	URI       string
	File      string
	Packed    bool
	Facts     json.RawMessage
	CreatedAt time.Time
	// CardDigest is that of the newest card, nil without one.
	CardDigest *string
	// PromotedBy is who put it into production last.
	PromotedBy *string
	PromotedAt *time.Time
}

// Artifact is what a run made, as ingest knows it.
type Artifact struct {
	ID, RunID, Kind, Format, Path string
	Size                          int64
	SHA256                        string
	URI                           string
	Packed                        bool
}

// Ref is the reference of a version.
func (m *Model) Ref(number int32) string {
	return ref.Ref{Kind: ref.Model, Project: m.Project, Name: m.Name, Version: strconv.Itoa(int(number))}.String()
}
