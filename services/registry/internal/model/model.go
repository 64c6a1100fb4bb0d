// Package model owns the models and their versions, which are registered from the artifacts of runs or from uploaded
// files. A version consists of bytes, which never change, and the facts in their headers. A model has the same bytes only
// once.
package model

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
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
	FormatGGUF        = modelfile.FormatGGUF
	FormatSafetensors = modelfile.FormatSafetensors
	FormatPEFT        = modelfile.FormatPEFT
)

// Status states whether a version can be used.
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

// Model is a named collection of versions.
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
	// URI is the location of the bytes of an artifact, and File is their file name. Packed means that the bytes are a tar
	// file of a folder.
	URI    string
	File   string
	Packed bool
	// Files are the uploaded files, sorted by path. URI is then the beginning of the locations of their bytes.
	Files []manifest.File
	// Base is the reference of the version that an adapter belongs to, or nil.
	Base *string
	// Pickle means that one of the uploaded files is a pickle.
	Pickle    bool
	Facts     json.RawMessage
	CreatedAt time.Time
	// CardDigest is the digest of the newest revision of the version's card, or nil if the version has no card.
	CardDigest *string
	// PromotedBy is the user who last put the version into production.
	PromotedBy *string
	PromotedAt *time.Time
	// Protected means that the version comes from a protected run. ProtectedDatasets are the ids of the datasets that the
	// run read. Only users who may change all of them may use the version.
	Protected         bool
	ProtectedDatasets []string
}

// Origin is what a version inherits from the run of its artifact.
type Origin struct {
	Owner             access.Owner
	Protected         bool
	ProtectedDatasets []string
}

// Artifact is an output of a run, as described by the ingest service.
type Artifact struct {
	ID, RunID, Kind, Format, Path string
	Name                          string // the path that the run gave
	Size                          int64
	SHA256                        string
	URI                           string
	Packed                        bool
}

// Ref returns the reference of a version.
func (m *Model) Ref(number int32) string {
	return ref.Ref{Kind: ref.Model, Project: m.Project, Name: m.Name, Version: strconv.Itoa(int(number))}.String()
}
