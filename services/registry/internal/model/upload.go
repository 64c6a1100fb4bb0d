package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// upload is the list of files of a new version.
type upload struct {
	files  []manifest.File
	digest string
	bytes  int64
	format string
	// pickles are the paths of the files that are pickles.
	pickles []string
	// base is the name of the base in the configuration of an adapter.
	base string
	// allowed means that the caller may upload pickles, and wants to.
	allowed bool
}

// maxPaths is the maximum length of all paths of an upload together, in bytes, because plans of revisions contain them.
const maxPaths = 32 << 10

// uploadOf returns the upload of files whose names make a model.
func uploadOf(ctx context.Context, files []manifest.File, limit int64, allowPickle bool) (*upload, error) {
	u := &upload{allowed: allowPickle}
	if allowPickle && !authn.CallerOf(ctx).IsAdmin() {
		return nil, fault.New(fault.Forbidden, codePickle, "allow_pickle is for administrators")
	}
	if err := checkNames(files); err != nil {
		return nil, err
	}
	const remedy = "save the model in smaller parts, or let an administrator raise SERVICE_MAX_UPLOAD_MB"
	var err error
	if u.files, u.digest, u.bytes, err = manifest.New(files, limit, remedy); err != nil {
		return nil, err
	}
	if len(u.files) == 1 {
		u.digest = "sha256:" + u.files[0].SHA256 // as of an artifact that is one file
	}
	paths, length := make([]string, 0, len(u.files)), 0
	for _, f := range u.files {
		if length += len(f.Path); length > maxPaths {
			return nil, fault.New(fault.Refused, "model_files", "the paths of the files have more than %d bytes together", maxPaths)
		}
		paths = append(paths, f.Path)
		if modelfile.IsPickle(f.Path, nil) {
			u.pickles = append(u.pickles, f.Path)
		}
	}
	if u.format, err = modelfile.Format(paths); err != nil {
		return nil, fault.New(fault.Refused, "model_files", "%s%s", err, u.savePickles())
	}
	return u, u.refusePickles()
}

// downloadNote is the file in which the command line notes what it has unpacked into a folder.
const downloadNote = ".signalbox-model.json"

// checkNames refuses names that not every machine can store in one folder.
func checkNames(files []manifest.File) error {
	folded := map[string]string{}
	for _, f := range files {
		other, taken := folded[strings.ToLower(f.Path)]
		folded[strings.ToLower(f.Path)] = f.Path
		switch {
		case taken && other != f.Path:
			return fault.New(fault.Refused, "model_files", "the paths %s and %s differ only in their case; rename one", other, f.Path)
		case path.Base(f.Path) == downloadNote:
			return fault.New(fault.Refused, "model_files", "the name %s is reserved; leave the file out", downloadNote)
		}
		for part := range strings.SplitSeq(f.Path, "/") {
			if len(part) > maxFileName {
				return fault.New(fault.Refused, "model_files", "the name %.40s… has %d bytes; at most %d are allowed", part, len(part), maxFileName)
			}
		}
	}
	return nil
}

// savePickles returns what mends files whose weights are pickles, as the end of a sentence.
func (u *upload) savePickles() string {
	if len(u.pickles) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s is a pickle: load the model with Transformers and save it with save_pretrained, which writes safetensors", u.pickles[0])
}

const codePickle = "pickle"

func (u *upload) refusePickles() error {
	if u.allowed || len(u.pickles) == 0 {
		return nil
	}
	return fault.New(fault.Forbidden, codePickle,
		"file %s is a pickle, which can run any code on the machine that loads it; leave it out, or save the weights as safetensors; "+
			"administrators can allow pickles with allow_pickle", u.pickles[0])
}

// prefix returns the beginning of the keys of the uploaded files of a model. Other models do not share them, so that
// knowing the digest of a file does not give its bytes.
func prefix(m *Model) string { return "projects/" + m.ProjectID + "/models/" + m.ID }

// objects returns the objects of the uploaded files of a model.
func (s *Server) objects(m *Model) manifest.Objects {
	return manifest.Objects{Blobs: s.Blobs, Key: func(sum string) string { return prefix(m) + "/" + sum }}
}

func (u *upload) keys(o manifest.Objects) []string {
	keys := make([]string, 0, len(u.files))
	for _, f := range u.files {
		keys = append(keys, o.Key(f.SHA256))
	}
	return keys
}

// inspect returns a new version of uploaded files, whose objects exist. The version is ready if their headers are valid
// for the format. Otherwise it is rejected, with the reason.
func (s *Server) inspect(ctx context.Context, m *Model, u *upload) (*Version, error) {
	read := map[string]bool{}
	v := &Version{
		ID: s.IDs.New(id.ModelVersion), ModelID: m.ID, Status: StatusReady, Lifecycle: lifecycleCandidate, Format: u.format,
		Digest: u.digest, Size: u.bytes, URI: blob.URI(prefix(m)), Files: u.files, CreatedAt: s.Clock.Now(),
	}
	files := make([]modelfile.File, 0, len(u.files))
	sums := map[string]string{}
	for _, f := range u.files {
		files = append(files, modelfile.File{Path: f.Path, Size: f.Size})
		sums[f.Path] = f.SHA256
	}
	facts, err := modelfile.Files(files, u.format, func(f modelfile.File) (io.ReadCloser, error) {
		read[f.Path] = true
		return s.open(ctx, m, manifest.File{Path: f.Path, Size: f.Size, SHA256: sums[f.Path]})
	})
	switch {
	case errors.Is(err, modelfile.ErrMalformed):
		v.Status, v.StatusReason = StatusRejected, err.Error()
	case err != nil:
		return nil, err
	}
	if err := s.sniff(ctx, m, u, read); err != nil {
		return nil, err
	}
	v.Pickle = len(u.pickles) > 0
	if v.Facts, err = json.Marshal(facts); err != nil {
		return nil, fmt.Errorf("encode the facts of a model: %w", err)
	}
	if u.base = facts.BaseModel; v.Status == StatusRejected {
		u.base = ""
	}
	return v, nil
}

func (s *Server) open(ctx context.Context, m *Model, f manifest.File) (io.ReadCloser, error) {
	body, err := s.Blobs.OpenKnown(ctx, blob.Info{Key: s.objects(m).Key(f.SHA256), Size: f.Size, SHA256: f.SHA256})
	if err != nil {
		return nil, fmt.Errorf("open file %s of a model: %w", f.Path, err)
	}
	return body, nil
}

// sniffAtOnce is the maximum number of files whose first bytes are read at a time.
const sniffAtOnce = 16

// sniff adds the files that begin like pickles to the pickles of the upload, and returns an error if they are not allowed.
// It leaves out the weights whose headers were read: a pickle has no such header.
func (s *Server) sniff(ctx context.Context, m *Model, u *upload, read map[string]bool) error {
	found := make([]bool, len(u.files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sniffAtOnce)
	for i, f := range u.files {
		if read[f.Path] && hasWeights(f.Path) || f.Size < modelfile.PickleHead || modelfile.IsPickle(f.Path, nil) {
			continue
		}
		group.Go(func() (err error) {
			found[i], err = s.pickle(ctx, m, f)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, f := range u.files {
		if found[i] {
			u.pickles = append(u.pickles, f.Path)
		}
	}
	return u.refusePickles()
}

func hasWeights(name string) bool {
	return path.Ext(name) == ".safetensors" || path.Ext(name) == ".gguf"
}

// pickle reports whether a file begins like a pickle. The header of a safetensors file may begin in the same way.
func (s *Server) pickle(ctx context.Context, m *Model, f manifest.File) (bool, error) {
	body, err := s.open(ctx, m, f)
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	var head [modelfile.PickleHead]byte
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return false, fmt.Errorf("read file %s of a model: %w", f.Path, err)
	}
	if !modelfile.IsPickle(f.Path, head[:]) || !hasWeights(f.Path) {
		return modelfile.IsPickle(f.Path, head[:]), nil
	}
	_, err = modelfile.Safetensors(io.MultiReader(bytes.NewReader(head[:]), body), f.Size)
	if errors.Is(err, modelfile.ErrMalformed) {
		return true, nil
	}
	return false, err
}

// base returns the reference of the version that an adapter belongs to: the given one, or the one from which its run
// started. It is nil if it is unknown, and for other formats.
func (s *Server) base(ctx context.Context, format, given, runID string) (*string, error) {
	switch {
	case format != FormatPEFT && given != "":
		return nil, fault.New(fault.Refused, "base", "a version in the format %s has no base; only adapters (peft) have one", format)
	case format != FormatPEFT:
		return nil, nil //nolint:nilnil // nil means no base
	case given == "" && runID == "":
		return nil, nil //nolint:nilnil // nil means an unknown base
	case given == "":
		from, err := s.Artifacts.StartedFrom(ctx, runID)
		if err != nil || from == "" {
			return nil, err
		}
		return &from, nil
	}
	r, ok := ref.Parse(ref.Model, given)
	if !ok {
		return nil, fault.New(fault.Refused, "base", "%q is not the reference of a model version, such as mdl/default/my-model@1", given)
	}
	m, v, err := s.Store.Find(ctx, s.Pool, authn.CallerOf(ctx).Reads(), r)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, fault.New(fault.Refused, "base", "no such model version: %s", given)
	}
	if v.Format != FormatSafetensors {
		return nil, fault.New(fault.Refused, "base", "the base %s is %s; an adapter belongs to a version in the format safetensors", given, v.Format)
	}
	exact := m.Ref(v.Number)
	return &exact, nil
}
