package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
)

// Artifacts reads runs and their artifacts. Its methods return an error of kind fault.Absent if the run or the artifact
// does not exist.
type Artifacts interface {
	Origin(ctx context.Context, runID string) (Origin, error)
	Artifact(ctx context.Context, runID, artifactID string) (*Artifact, error)
	// StartedFrom returns the reference of the model version from which a run started, or "".
	StartedFrom(ctx context.Context, runID string) (string, error)
}

// artifact returns an artifact and the data that its version inherits from the run. It returns an error if the caller
// may not use the artifact or if its weights cannot be registered.
func (s *Server) artifact(ctx context.Context, runID, artifactID string) (*Artifact, Origin, error) {
	from, err := s.Artifacts.Origin(ctx, runID)
	if err != nil {
		return nil, from, err
	}
	if !from.Owner.Seen(authn.CallerOf(ctx).Reads()) {
		return nil, from, fault.Absentf("run", runID)
	}
	if from.Protected {
		if err := guard(ctx, s.Pool, "run "+runID, from.ProtectedDatasets); err != nil {
			return nil, from, err
		}
	}
	a, err := s.Artifacts.Artifact(ctx, runID, artifactID)
	if err != nil {
		return nil, from, err
	}
	return a, from, suitable(a)
}

// CheckUse returns an error if the version is protected and the caller may not change all datasets that protect it.
func (v *Version) CheckUse(ctx context.Context, q pg.Querier) error {
	if !v.Protected {
		return nil
	}
	return guard(ctx, q, fmt.Sprintf("version %d of the model", v.Number), v.ProtectedDatasets)
}

func guard(ctx context.Context, q pg.Querier, what string, datasets []string) error {
	ok, err := dataset.Store{}.Guards(ctx, q, authn.CallerOf(ctx), datasets)
	if err != nil || ok {
		return err
	}
	return fault.New(fault.Forbidden, dataset.CodeProtected,
		"%s is protected: only users who may change the protected datasets that it comes from can use it", what)
}

// suitable returns an error if the weights of an artifact cannot be registered.
func suitable(a *Artifact) error {
	switch {
	case a.Kind == "eval_report":
		return refused("artifacts of kind %s contain no weights", a.Kind)
	case a.Format != FormatGGUF && a.Format != FormatSafetensors && a.Format != FormatPEFT:
		return refused("format %q is not supported; use gguf, safetensors or peft", a.Format)
	case !a.Packed && a.Format == FormatPEFT:
		return refused("a peft artifact must be a folder with adapter_config.json and adapter_model.safetensors")
	case a.Packed && a.Format == FormatGGUF:
		return refused("a gguf artifact must be one file, not a folder")
	}
	if _, ok := blob.ParseURI(a.URI); !ok || a.SHA256 == "" {
		return notStored()
	}
	return nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "artifact", format, args...)
}

func notStored() error { return refused("the artifact's bytes are not in the object store") }

// examine returns a new version of an artifact. The version is ready if its header is valid for the format. Otherwise
// it is rejected, with the reason.
func (s *Server) examine(ctx context.Context, m *Model, a *Artifact, from Origin) (*Version, error) {
	v := &Version{
		ID: s.IDs.New(id.ModelVersion), ModelID: m.ID, Status: StatusReady, Lifecycle: lifecycleCandidate,
		RunID: a.RunID, ArtifactID: a.ID, Format: a.Format, Digest: "sha256:" + a.SHA256, Size: a.Size,
		URI: a.URI, File: fileName(a), Packed: a.Packed, CreatedAt: s.Clock.Now(),
		Protected: from.Protected, ProtectedDatasets: from.ProtectedDatasets,
	}
	facts, err := s.facts(ctx, a)
	switch {
	case errors.Is(err, modelfile.ErrMalformed):
		v.Status, v.StatusReason = StatusRejected, err.Error()
	case err != nil:
		return nil, err
	}
	if v.Protected { // the run may have written records into the texts of the header
		facts = facts.Numbers()
		if v.StatusReason != "" {
			v.StatusReason = "the file is not a valid " + v.Format + " model; the details are withheld, because the run is protected"
		}
	}
	if v.Facts, err = json.Marshal(facts); err != nil {
		return nil, fmt.Errorf("encode the facts of a model: %w", err)
	}
	return v, nil
}

// fileName returns the file name of the bytes on an executor: the one that the run gave, in any script, if it has the
// format's extension and can name a file.
func fileName(a *Artifact) string {
	if a.Packed {
		return "model.tar"
	}
	name := path.Base(cmp.Or(a.Name, a.Path))
	if path.Ext(name) != "."+a.Format || name[0] == '.' || len(name) > maxFileName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }) {
		return "model." + a.Format
	}
	return name
}

// maxFileName is the maximum length of a file name in bytes. File systems allow 255; the rest is for temporary files beside it.
const maxFileName = 200

// facts reads the header of an artifact's file. If the artifact is a single file, facts does not read the weights.
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
		return modelfile.Packed(body, info.Size, a.Format)
	case a.Format == FormatGGUF:
		return modelfile.GGUF(body, info.Size)
	default:
		return modelfile.Safetensors(body, info.Size)
	}
}
