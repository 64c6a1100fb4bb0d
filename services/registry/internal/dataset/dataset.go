// Package dataset owns versioned datasets.
//
// A version is defined by its manifest. The bytes are stored in the object store by digest, separately for each
// project, so that a project learns nothing about the data of another project. A version becomes ready only when every
// object exists with the size and the digest in the manifest. After that it never changes, except that it may be
// archived.
//
// For a protected dataset, the API shows only the identity and the schema. It shows no files, records or file digests.
// The audit log records every refused access and every use by a job.
//
// An abandoned upload reserves its version name until its upload URLs expire. After that, another upload can take the
// name.
package dataset

import (
	"encoding/json"
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// SubjectKind and VersionKind are the kinds of datasets and their versions in events, audit entries and errors.
const (
	SubjectKind = "dataset"
	VersionKind = "dataset version"
)

// DefaultFormat is the format of a dataset that is created without one.
const DefaultFormat = "jsonl"

// State is the state of a version.
type State string

// The states of a version.
const (
	StateUploading State = "uploading"
	StateReady     State = "ready"
	StateArchived  State = "archived"
)

// The sources of a schema.
const (
	SchemaDeclared = "declared"
	SchemaInferred = "inferred"
	SchemaNone     = "none"
)

// Dataset is a named collection of versions.
type Dataset struct {
	access.Owner

	ID          string
	Name        string
	Description string
	Format      string
	// Protected means that only users who may edit the dataset can use it in jobs, and that no user can view its records.
	// It does not affect who can see that the dataset exists.
	Protected bool
	Latest    *string `db:"latest_version"`
	CreatedAt time.Time
}

// CodeProtected is the code of errors about protected datasets.
const CodeProtected = "dataset_protected"

// CheckViewable returns an error if the dataset is protected: no user may view its files or records.
func (d *Dataset) CheckViewable() error {
	if !d.Protected {
		return nil
	}
	return fault.New(fault.Forbidden, CodeProtected, "dataset %s is protected: only its identity and its schema are visible", d.Name)
}

// Readable reports whether a job of the caller may read the records. It is called only if the caller can see the
// dataset.
func (d *Dataset) Readable(c *authn.Caller) bool {
	return !d.Protected || c.CanEdit(d.UserID, d.ProjectID)
}

// File is one file of a version.
type File = manifest.File

// Version is one version of a dataset.
type Version struct {
	ID        string
	DatasetID string
	Version   string
	State     State
	Digest    string
	Bytes     int64
	Count     int    `db:"files"`
	Manifest  []File `db:"-"`
	// Packs are the packs of the version. Alone holds the files that are in no pack. Jobs download both. Only
	// LoadInputs and Packer.Pack set these two fields.
	Packs       []Pack `db:"-"`
	Alone       []File `db:"-"`
	CreatorID   string
	CreatedAt   time.Time
	CommittedAt *time.Time
	ArchivedAt  *time.Time
	// Schema is the JSON Schema of the rows, or nil if the schema is unknown.
	Schema       json.RawMessage `db:"row_schema"`
	SchemaSource string
	SampledRows  int
	// UploadUntil is when the most recently issued upload URLs expire. Go code only writes it; SQL statements compare
	// it with the current time.
	UploadUntil time.Time `db:"-"`
	// Isolated means that the bytes are stored under keys that only this dataset uses, because the dataset was protected
	// when the upload began. With shared keys, a user who knows a digest could include the protected bytes in another
	// dataset.
	Isolated bool `db:"apart"`
}

// Ref returns the reference of a version.
func (d *Dataset) Ref(version string) string {
	return ref.Ref{Kind: ref.Dataset, Project: d.Project, Name: d.Name, Version: version}.String()
}

// Key returns the object key under which the datasets of a project share an object.
func Key(projectID, sha256 string) string { return "projects/" + projectID + "/blobs/" + sha256 }

// key returns the object key of an object of the version.
func (v *Version) key(d *Dataset, sha256 string) string {
	if v.Isolated {
		return "projects/" + d.ProjectID + "/protected/" + d.ID + "/" + sha256
	}
	return Key(d.ProjectID, sha256)
}
