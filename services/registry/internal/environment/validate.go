package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// ValidateArgs are the arguments of the queued job that validates one version.
type ValidateArgs struct {
	VersionID string `json:"version_id"`
}

// Kind implements river.JobArgs.
func (ValidateArgs) Kind() string { return "environment_validate" }

// Validations queues validations.
type Validations struct {
	Queue *bgjob.Client
}

// Validate implements Queue.
func (v *Validations) Validate(ctx context.Context, tx pgx.Tx, versionID string) error {
	_, err := v.Queue.InsertTx(ctx, tx, ValidateArgs{VersionID: versionID}, nil)
	return err
}

// Validator checks the bytes of versions and makes the versions ready or invalid.
type Validator struct {
	river.WorkerDefaults[ValidateArgs]

	Pool   *pgxpool.Pool
	Store  Store
	Blobs  blob.Store
	Events *event.Log
	Clock  clock.Clock
	// MaxBytes is the maximum size of an unpacked package.
	MaxBytes int64
}

// Work implements river.Worker.
func (w *Validator) Work(ctx context.Context, job *river.Job[ValidateArgs]) error {
	e, v, err := w.Store.Validating(ctx, w.Pool, job.Args.VersionID)
	if err != nil || v == nil {
		return err
	}
	wrong, err := w.examine(ctx, e, v)
	if err != nil {
		return err
	}
	return w.settle(ctx, e, v, wrong)
}

// settle makes the version ready if the text wrong is empty. Otherwise it makes the version invalid, with the text as
// the reason.
func (w *Validator) settle(ctx context.Context, e *Environment, v *Version, wrong string) error {
	to := StateReady
	if wrong != "" {
		to = StateInvalid
	}
	return pg.InTx(ctx, w.Pool, func(ctx context.Context, tx pgx.Tx) error {
		done, err := w.Store.Settle(ctx, tx, v, to, wrong, w.Clock.Now())
		if err != nil || !done {
			return err
		}
		_, err = w.Events.Append(ctx, tx, event.Event{
			SubjectKind: SubjectKind, SubjectID: e.ID, Type: "version", From: string(StateValidating), To: string(to), Reason: wrong, Message: v.Version,
		})
		return err
	})
}

// examine returns a description of the first defect in the bytes of a version, or "".
func (w *Validator) examine(ctx context.Context, e *Environment, v *Version) (wrong string, err error) {
	if v.Package.SHA256 != "" {
		if wrong, err = w.examinePackage(ctx, e, v); wrong != "" || err != nil {
			return wrong, err
		}
	}
	t, err := v.Taskset()
	if err != nil {
		return "", err
	}
	body, info, err := w.Blobs.Get(ctx, TasksetKey(e.ProjectID, strings.TrimPrefix(t.Digest, "sha256:")))
	if fault.Is(err, fault.Absent) {
		return "the taskset is missing from the object store", nil
	}
	if err != nil {
		return "", fmt.Errorf("open a taskset: %w", err)
	}
	defer func() { _ = body.Close() }()
	if info.Size > MaxTaskset {
		return fmt.Sprintf("the taskset exceeds the limit of %d MiB", MaxTaskset>>20), nil
	}
	if wrong, err = t.count(body); err != nil {
		return "", fmt.Errorf("read a taskset: %w", err)
	}
	return wrong, nil
}

func (w *Validator) examinePackage(ctx context.Context, e *Environment, v *Version) (wrong string, err error) {
	body, info, err := w.Blobs.Get(ctx, PackageKey(e.ProjectID, v.Package.SHA256))
	if fault.Is(err, fault.Absent) {
		return "the package is missing from the object store", nil
	}
	if err != nil {
		return "", fmt.Errorf("open a package: %w", err)
	}
	defer func() { _ = body.Close() }()
	_, err = archive.Inspect(body, info.Size, w.MaxBytes)
	var known *fault.Error
	if errors.As(err, &known) && (known.Code == archive.GatePackage || known.Code == archive.GateSensitive) {
		return known.Text(), nil
	}
	return "", err
}
