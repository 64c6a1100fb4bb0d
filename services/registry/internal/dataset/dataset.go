// Package dataset keeps versioned datasets. A version is its manifest: the bytes lie in the object store
// under their own digests, apart for each project, so that a project learns nothing of another one's. A
// version becomes ready only when every object is there with the size and the digest that its manifest
// names, and never changes then but to archived. Of a protected dataset identity and schema are all that anybody
// is shown: no file, no record, no digest of a file; what is refused and what is bound is in the audit. An upload that was left behind holds its version's name until its
// addresses have expired; after that whoever asks for the name gets it.
package dataset

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// SubjectKind and VersionKind name datasets in events, audit and errors.
const (
	SubjectKind = "dataset"
	VersionKind = "dataset version"
)

// DefaultFormat is that of a dataset whose maker names none.
const DefaultFormat = "jsonl"

// State is where a version stands.
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

// Dataset is a name with versions.
type Dataset struct {
	own.Owner

	ID          string
	Name        string
	Description string
	Format      string
	// Protected datasets are seen by whoever may see them, bound only by who may edit them, and shown to nobody.
	Protected bool
	Latest    *string
	CreatedAt time.Time
}

// CodeProtected marks what nobody is shown of a protected dataset.
const CodeProtected = "dataset_protected"

// Shown refuses to show files or records of a protected dataset, to whomever.
func (d *Dataset) Shown() error {
	if !d.Protected {
		return nil
	}
	return fault.New(fault.Forbidden, CodeProtected, "dataset %s is protected: its identity and its schema are all that is shown", d.Name)
}

// Readable says whether the caller, who sees the dataset, may read its records.
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
	ID          string
	DatasetID   string
	Version     string
	State       State
	Digest      string
	Bytes       int64
	Count       int
	Manifest    []File
	CreatorID   string
	CreatedAt   time.Time
	CommittedAt *time.Time
	ArchivedAt  *time.Time
	// Schema is what the rows look like, a JSON Schema; nil where nothing is known.
	Schema       json.RawMessage
	SchemaSource string
	SampledRows  int
	// UploadUntil is when the addresses of its upload, as they were last asked for, stop to work. It is
	// written, and judged in SQL alone.
	UploadUntil time.Time
	// Apart says that its bytes lie where no other dataset's are looked for: those of one that was protected when they
	// were asked for. Who merely knows their digest must not be given them as his own.
	Apart bool
}

// Ref is the reference of a version.
func (d *Dataset) Ref(version string) string {
	return ref.Ref{Kind: ref.Dataset, Project: d.Project, Name: d.Name, Version: version}.String()
}

// Key is where an object of a project's datasets lies.
func Key(projectID, sha256 string) string { return "projects/" + projectID + "/blobs/" + sha256 }

// key is where an object of the version lies.
func (v *Version) key(d *Dataset, sha256 string) string {
	if v.Apart {
		return "projects/" + d.ProjectID + "/protected/" + d.ID + "/" + sha256
	}
	return Key(d.ProjectID, sha256)
}

// Manifest sorts the files, refuses what no folder can hold, and gives the digest and the size of all.
// limit is the most bytes that a version may have.
func Manifest(files []File, limit int64) (sorted []File, digest string, total int64, err error) {
	sorted = slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for i, f := range sorted {
		if err := checkPath(f.Path); err != nil {
			return nil, "", 0, err
		}
		if i > 0 && sorted[i-1].Path == f.Path {
			return nil, "", 0, refused("the path %s is there twice", sorted[i-1].Path)
		}
		if f.Size > limit-total {
			return nil, "", 0, fault.New(fault.TooLarge, "upload_too_large",
				"the dataset is larger than the %d MiB that this installation takes", limit>>20)
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

// checkFolders refuses a path that is a file and a folder at once.
func checkFolders(files []File) error {
	names := make(map[string]bool, len(files))
	for _, f := range files {
		names[f.Path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if names[dir] {
				return refused("the path %s is a file and a folder", dir)
			}
		}
	}
	return nil
}

// checkPath takes relative paths in their one spelling that stay inside their folder.
func checkPath(p string) error {
	bad := p == "." || p != path.Clean(p) || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") ||
		strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' })
	if bad {
		return refused("the path %q is not a plain relative path", p)
	}
	return nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "manifest", format, args...)
}
