// Package environment owns the environments of agent reinforcement learning: versioned manifests (env/v1) with the code
// and the taskset that they refer to.
//
// It promises that no client can read a taskset. Tasksets are stored under separate keys, for which no download URL is
// ever signed. No response, event, audit entry, log line or reason quotes a task: only the digest and counts are shown.
//
// A version consists of its manifest and the digest of its package. Registering the same content again returns the same
// version. A ready version never changes, except that it may be deprecated.
package environment

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// SubjectKind and VersionKind are the kinds of environments and their versions in events, audit entries and errors.
const (
	SubjectKind = "environment"
	VersionKind = "environment version"
)

// State is the state of a version.
type State string

// The states of a version: uploading, then validating, then ready or invalid; ready may become deprecated.
const (
	StateUploading  State = "uploading"
	StateValidating State = "validating"
	StateReady      State = "ready"
	StateInvalid    State = "invalid"
	StateDeprecated State = "deprecated"
)

// The kinds of upload.
const (
	UploadPackage = "package"
	UploadTaskset = "taskset"
)

// MaxTaskset is the size of the largest taskset, in bytes. Validation reads all of it.
const MaxTaskset = 1 << 30

// Environment is a named collection of versions.
type Environment struct {
	access.Owner

	ID          string
	Name        string
	Description string
	Latest      *string `db:"latest_version"`
	CreatedAt   time.Time
}

// Version is one version of an environment.
type Version struct {
	ID            string
	EnvironmentID string
	Version       string
	State         State
	Reason        string
	Digest        string
	// Manifest is the JSON document that the API returns.
	Manifest  json.RawMessage
	Package   Package
	CreatorID string
	CreatedAt time.Time
	ReadyAt   *time.Time
}

// Package is the code of a version. The zero value means that the version has no package.
type Package struct {
	SHA256 string
	Size   int64
}

// Taskset is the public description of a taskset.
type Taskset struct {
	Digest   string           `json:"digest"`
	Count    int32            `json:"count"`
	Splits   map[string]int32 `json:"splits"`
	Infinite bool             `json:"infinite"`
}

// Ref returns the reference of a version.
func (e *Environment) Ref(version string) string {
	return ref.Ref{Kind: ref.Environment, Project: e.Project, Name: e.Name, Version: version}.String()
}

// TasksetKey returns the object key of a taskset. No download URL is ever signed for a key with this prefix.
func TasksetKey(projectID, sha256 string) string {
	return "projects/" + projectID + "/tasksets/" + sha256
}

// PackageKey returns the object key of an environment's package.
func PackageKey(projectID, sha256 string) string {
	return "projects/" + projectID + "/environments/" + sha256
}

// Taskset returns the taskset that the manifest describes.
func (v *Version) Taskset() (Taskset, error) {
	var m struct {
		Taskset Taskset `json:"taskset"`
	}
	if err := json.Unmarshal(v.Manifest, &m); err != nil {
		return Taskset{}, fmt.Errorf("read the manifest of an environment: %w", err)
	}
	return m.Taskset, nil
}

// Digest returns the digest of a manifest and a package.
func Digest(manifest json.RawMessage, p Package) (string, error) {
	content := struct {
		Manifest json.RawMessage `json:"manifest"`
		Package  *string         `json:"package"`
	}{Manifest: manifest}
	if p.SHA256 != "" {
		content.Package = new("sha256:" + p.SHA256)
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encode the manifest and the package: %w", err)
	}
	digest, err := canon.Digest(raw)
	if err != nil {
		return "", refused("%s", err)
	}
	return digest, nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "manifest", format, args...)
}
