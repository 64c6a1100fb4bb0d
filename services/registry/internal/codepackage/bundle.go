// Package codepackage owns the packages of job submissions: archives of the code that a job runs.
//
// A job receives only packages that passed the inspection by platform/archive. Each package is inspected once, and the
// result is final. A project need not upload the bytes of an accepted package again.
package codepackage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// SubjectKind is what events, audit entries and errors call a package.
const SubjectKind = "package"

// State is the state of a package.
type State string

// The states of a package.
const (
	StateUploading State = "uploading"
	StateAccepted  State = "accepted"
	StateRefused   State = "refused"
)

// Bundle is the record of a package, whose bytes may not have been uploaded yet.
type Bundle struct {
	access.Owner

	ID        string
	SHA256    string
	Size      int64 `db:"size_bytes"`
	State     State
	Gate      string
	Text      string `db:"refusal"`
	TooLarge  bool
	CreatedAt time.Time
}

// Key returns the object key of a package's bytes.
func Key(projectID, sha256 string) string { return "projects/" + projectID + "/packages/" + sha256 }

// Refusal returns the error for a job that uses the package, or nil if the package is accepted.
func (b *Bundle) Refusal() error {
	kind := fault.Refused
	if b.TooLarge {
		kind = fault.TooLarge
	}
	switch b.State {
	case StateAccepted:
		return nil
	case StateRefused:
		return fault.New(kind, b.Gate, "%s", b.Text)
	default:
		return Refuse("package %s has not been uploaded and committed", b.ID)
	}
}

// Refuse returns an error with the code archive.GatePackage.
func Refuse(format string, args ...any) error {
	return fault.New(fault.Refused, archive.GatePackage, archive.GatePackage+": "+format, args...)
}

// judge inspects the bytes of a package and sets the state of b to accepted or refused. It returns an error, and leaves
// the state unchanged, if the bytes are missing or cannot be read.
func judge(ctx context.Context, blobs blob.Store, b *Bundle, limit int64) error {
	body, info, err := blobs.Get(ctx, Key(b.ProjectID, b.SHA256))
	if fault.Is(err, fault.Absent) {
		return Refuse("package %s has not been uploaded", b.ID)
	}
	if err != nil {
		return fmt.Errorf("open a package: %w", err)
	}
	defer func() { _ = body.Close() }()
	_, err = archive.Inspect(body, info.Size, limit)
	var known *fault.Error
	switch {
	case err == nil:
		b.State = StateAccepted
		return nil
	case errors.As(err, &known) && (known.Code == archive.GatePackage || known.Code == archive.GateSensitive):
		b.State, b.Gate, b.Text, b.TooLarge = StateRefused, known.Code, known.Text(), known.Kind == fault.TooLarge
		return nil
	default:
		return err
	}
}
