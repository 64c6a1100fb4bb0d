package codepackage

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

// Server implements PackageService.
type Server struct {
	registryv1.UnimplementedPackageServiceServer

	Pool     *pgxpool.Pool
	Store    Store
	Projects access.Projects
	Blobs    blob.Store
	Once     *idempotency.Once
	Events   *event.Log
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	Log      *slog.Logger
	// MaxBytes is the maximum size of an upload, and of the unpacked package.
	MaxBytes int64
	// Unused deletes the object of a package that was refused.
	Unused *retention.Sweeper
}

// CreatePackage returns the upload URL of a new package, or the project's accepted package if it has the same bytes.
func (s *Server) CreatePackage(ctx context.Context, in *registryv1.CreatePackageRequest) (*registryv1.Package, error) {
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return nil, err
	}
	if in.GetSizeBytes() > s.MaxBytes {
		return nil, fault.New(fault.TooLarge, "upload_too_large", "the package exceeds the limit of %d MiB", s.MaxBytes>>20)
	}
	out := &registryv1.Package{}
	err = s.Once.Do(ctx, registryv1.PackageService_CreatePackage_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		b, err := s.Store.Accepted(ctx, tx, owner.ProjectID, in.GetSha256())
		if err != nil {
			return err
		}
		if b != nil {
			idempotency.Set(out, toProto(b))
			out.Exists = true
			idempotency.MarkExisting(out)
			return nil
		}
		b = &Bundle{
			Owner: owner, ID: s.IDs.New(id.Package), SHA256: in.GetSha256(), Size: in.GetSizeBytes(), State: StateUploading, CreatedAt: s.Clock.Now(),
		}
		if err := s.Store.Insert(ctx, tx, b); err != nil {
			return err
		}
		idempotency.Set(out, toProto(b))
		return s.record(ctx, tx, "package.create", b, event.Event{Type: "created", To: string(b.State)})
	})
	if err != nil {
		return nil, err
	}
	if idempotency.TakeExistingMark(out) {
		return out, request.SetStatus(ctx, http.StatusOK)
	}
	return out, s.sign(ctx, owner.ProjectID, out)
}

// sign adds an upload URL to a response. A repeated request gets a new URL.
func (s *Server) sign(ctx context.Context, projectID string, out *registryv1.Package) error {
	signed, err := s.Blobs.SignPut(ctx, Key(projectID, out.GetSha256()), blob.SignOptions{Size: out.GetSizeBytes(), SHA256: out.GetSha256()})
	if err != nil {
		return fmt.Errorf("sign an upload: %w", err)
	}
	out.Upload = uploadToProto(signed)
	return nil
}

func (s *Server) record(ctx context.Context, tx pgx.Tx, action string, b *Bundle, e event.Event) error {
	e.SubjectKind, e.SubjectID = SubjectKind, b.ID
	after := map[string]any{"sha256": b.SHA256, "size_bytes": b.Size, "state": b.State, "refusal": b.Text}
	return db.RecordChange(ctx, tx, s.Events, s.Audit, action, e, after)
}

// GetPackage returns one package.
func (s *Server) GetPackage(ctx context.Context, in *registryv1.GetPackageRequest) (*registryv1.Package, error) {
	b, err := s.get(ctx, in.GetPackageId())
	if err != nil {
		return nil, err
	}
	return toProto(b), nil
}

func (s *Server) get(ctx context.Context, packageID string) (*Bundle, error) {
	if err := request.ID(id.Package, "package_id", packageID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), packageID)
}

// CommitPackage inspects the bytes of a package. A repeated call returns the stored result.
func (s *Server) CommitPackage(ctx context.Context, in *registryv1.CommitPackageRequest) (*registryv1.Package, error) {
	b, err := s.get(ctx, in.GetPackageId())
	if err != nil {
		return nil, err
	}
	if err := b.Require(authn.ScopeOf(ctx), SubjectKind, b.ID); err != nil {
		return nil, err
	}
	if b.State == StateUploading {
		if b, err = s.settle(ctx, b); err != nil {
			return nil, err
		}
	}
	if err := b.Refusal(); err != nil {
		return nil, err
	}
	return toProto(b), nil
}

// settle inspects a package, stores the result and returns the stored package. If a concurrent call stored a result
// first, settle returns the package with that result.
func (s *Server) settle(ctx context.Context, b *Bundle) (*Bundle, error) {
	if err := judge(ctx, s.Blobs, b, s.MaxBytes); err != nil {
		return nil, err
	}
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		done, err := s.Store.Settle(ctx, tx, b)
		if err != nil || !done {
			return err
		}
		return s.record(ctx, tx, "package.commit", b, event.Event{Type: "judged", From: string(StateUploading), To: string(b.State), Reason: b.Gate})
	})
	if err != nil {
		return nil, err
	}
	if b.State == StateRefused {
		// If the removal fails, the sweep of unused objects deletes the object later.
		if _, err := s.Unused.Remove(ctx, []string{Key(b.ProjectID, b.SHA256)}); err != nil {
			s.Log.WarnContext(ctx, "could not delete the object of a refused package; the next sweep deletes it", "package", b.ID, "error", err.Error())
		}
	}
	return s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), b.ID)
}
