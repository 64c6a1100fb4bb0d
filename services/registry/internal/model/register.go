package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
)

// Artifacts reads runs and their artifacts. If the run or the artifact is missing, they return an error of kind
// fault.Absent.
type Artifacts interface {
	RunOwner(ctx context.Context, runID string) (access.Owner, error)
	Artifact(ctx context.Context, runID, artifactID string) (*Artifact, error)
}

// artifact returns an artifact that the caller may see and whose weights can be registered.
func (s *Server) artifact(ctx context.Context, runID, artifactID string) (*Artifact, error) {
	owner, err := s.Artifacts.RunOwner(ctx, runID)
	if err != nil {
		return nil, err
	}
	if !owner.Seen(authn.CallerOf(ctx).Reads()) {
		return nil, fault.Absentf("run", runID)
	}
	a, err := s.Artifacts.Artifact(ctx, runID, artifactID)
	if err != nil {
		return nil, err
	}
	switch {
	case a.Kind == "eval_report":
		return nil, refused("artifacts of kind %s contain no weights", a.Kind)
	case a.Format != FormatGGUF && a.Format != FormatSafetensors:
		return nil, refused("format %q is not supported; use gguf or safetensors", a.Format)
	case a.Packed && a.Format == FormatGGUF:
		return nil, refused("a gguf artifact must be one file, not a folder")
	}
	if _, ok := blob.ParseURI(a.URI); !ok || a.SHA256 == "" {
		return nil, notStored()
	}
	return a, nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "artifact", format, args...)
}

func notStored() error { return refused("the artifact's bytes are not in the object store") }

// examine returns a new version of an artifact. The version is ready if its header is valid for the format, else it is
// rejected with the reason.
func (s *Server) examine(ctx context.Context, m *Model, a *Artifact) (*Version, error) {
	v := &Version{
		ID: s.IDs.New(id.ModelVersion), ModelID: m.ID, Status: StatusReady, Lifecycle: lifecycleCandidate,
		RunID: a.RunID, ArtifactID: a.ID, Format: a.Format, Digest: "sha256:" + a.SHA256, Size: a.Size,
		URI: a.URI, File: fileName(a), Packed: a.Packed, CreatedAt: s.Clock.Now(),
	}
	facts, err := s.facts(ctx, a)
	switch {
	case errors.Is(err, modelfile.ErrMalformed):
		v.Status, v.StatusReason = StatusRejected, err.Error()
	case err != nil:
		return nil, err
	}
	if v.Facts, err = json.Marshal(facts); err != nil {
		return nil, fmt.Errorf("encode the facts of a model: %w", err)
	}
	return v, nil
}

// fileName returns the file name of the bytes on an executor.
func fileName(a *Artifact) string {
	if a.Packed {
		return "model.tar"
	}
	name := path.Base(a.Path)
	if blob.CheckKey(name) != nil || path.Ext(name) != "."+a.Format {
		return "model." + a.Format
	}
	return name
}

// facts reads the header of an artifact's file. It does not read the weights of a single file.
func (s *Server) facts(ctx context.Context, a *Artifact) (modelfile.Facts, error) {
	key, _ := blob.ParseURI(a.URI)
	body, info, err := s.Blobs.Get(ctx, key)
	if fault.Is(err, fault.Absent) {
		return modelfile.Facts{}, notStored()
	}
	if err != nil {
		return modelfile.Facts{}, fmt.Errorf("open an artifact: %w", err)
	}
	defer func() { _ = body.Close() }()
	if info.Size != a.Size || info.SHA256 != a.SHA256 {
		return modelfile.Facts{}, fmt.Errorf("%w: %s does not match its artifact: %d bytes in the object store, %d bytes expected",
			modelfile.ErrMalformed, fileName(a), info.Size, a.Size)
	}
	switch {
	case a.Packed:
		return modelfile.Folder(body, info.Size)
	case a.Format == FormatGGUF:
		return modelfile.GGUF(body, info.Size)
	default:
		return modelfile.Safetensors(body, info.Size)
	}
}
