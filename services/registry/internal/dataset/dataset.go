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
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
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

// File is one object of a version.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

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

// checkPath accepts only clean relative paths that stay inside their folder.
func checkPath(p string) error {
	bad := p == "." || p != path.Clean(p) || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") ||
		strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' })
	if bad {
		return refused("path %q must be relative and must not contain a . or .. element, a double or trailing slash, a backslash or a control character", p)
	}
	return nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "manifest", format, args...)
}

// Manifest returns the files sorted by path, the digest of the whole list, and the total size in bytes. It returns an
// error if the files cannot be stored in one folder or have more than limit bytes in total.
func Manifest(files []File, limit int64) (sorted []File, digest string, total int64, err error) {
	sorted = slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for i, f := range sorted {
		if err := checkPath(f.Path); err != nil {
			return nil, "", 0, err
		}
		if i > 0 && sorted[i-1].Path == f.Path {
			return nil, "", 0, refused("duplicate path %s", sorted[i-1].Path)
		}
		if f.Size > limit {
			return nil, "", 0, fault.New(fault.TooLarge, "upload_too_large",
				"file %s exceeds the limit of %d MiB for one upload; split it", f.Path, limit>>20)
		}
		if f.Size > math.MaxInt64-total {
			return nil, "", 0, fault.New(fault.TooLarge, "upload_too_large", "the files together are too large")
		}
		total += f.Size
	}
	if err := checkFolders(sorted); err != nil {
		return nil, "", 0, err
	}
	raw, err := json.Marshal(sorted)
	if err != nil {
		return nil, "", 0, fmt.Errorf("write a manifest: %w", err)
	}
	digest, err = canon.Digest(raw)
	return sorted, digest, total, err
}

// checkFolders rejects a path that is both a file and a folder.
func checkFolders(files []File) error {
	names := make(map[string]bool, len(files))
	for _, f := range files {
		names[f.Path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if names[dir] {
				return refused("path %s is both a file and a folder", dir)
			}
		}
	}
	return nil
}
