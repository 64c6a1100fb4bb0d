// Package bundle keeps the packages that submissions bring: archives of the code that a job runs.
//
// It promises that no job gets a package whose bytes were not judged (platform/archive), that a judgement is made
// once and stays, and that the same bytes are uploaded once in a project.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
)

// SubjectKind names packages in events, audit and errors.
const SubjectKind = "package"

// State is where a package stands.
type State string

// The states of a package.
const (
	StateUploading State = "uploading"
	StateAccepted  State = "accepted"
	StateRefused   State = "refused"
)

// Bundle is a package.
type Bundle struct {
	own.Owner

	ID        string
	SHA256    string
	Size      int64
	State     State
	Gate      string
	Text      string
	TooLarge  bool
	CreatedAt time.Time
}

// Key is where the bytes of a package lie.
func Key(projectID, sha256 string) string { return "projects/" + projectID + "/packages/" + sha256 }

// Refusal is why no job gets the package, nil where one does.
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
		return Refuse("package %s was not uploaded and committed", b.ID)
	}
}

// Refuse is a refusal by the package's gate.
func Refuse(format string, args ...any) error {
	return fault.New(fault.Refused, archive.GatePackage, archive.GatePackage+": "+format, args...)
}

// judge reads the bytes of a package and settles what is thought of them.
func judge(ctx context.Context, blobs blob.Store, b *Bundle, limit int64) error {
	body, info, err := blobs.Get(ctx, Key(b.ProjectID, b.SHA256))
	if fault.Is(err, fault.Absent) {
		return Refuse("the bytes of %s were not uploaded", b.ID)
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
