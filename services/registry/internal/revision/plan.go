package revision

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
)

// The engines that can serve a model.
const (
	EngineLlamaCpp     = "llamacpp"
	EngineTransformers = "transformers"
	EngineCommand      = "command"
)

// defaultPool is the pool of an engine for which the request states no pool.
const defaultPool = "default"

// Plan is the part of an engine's order that is fixed when the revision is created, because the rows from which it is
// built may change.
type Plan struct {
	// Model is the first file of the model, and More are the others. Plans of earlier versions have only Model.
	Model       File     `json:"model"`
	More        []File   `json:"more,omitempty"`
	ModelDigest string   `json:"model_digest"`
	ServedNames []string `json:"served_names"`
	Task        string   `json:"task"`
	ProbeS      int32    `json:"probe_deadline_s"`
	OwnerID     string   `json:"owner_id"`
	ProjectID   string   `json:"project_id"`
	// Protected means that the model comes from a protected run, so that texts of its engine are withheld.
	Protected bool `json:"protected,omitempty"`
}

// File is an object with bytes of the model.
type File struct {
	Path   string `json:"path"`
	URI    string `json:"uri"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Packed bool   `json:"packed"`
}

// Files returns the first file of a version of a model, and the others.
func Files(v *model.Version) (first File, more []File) {
	for i, o := range model.ToObjects(v) {
		f := File{Path: o.GetPath(), URI: o.GetUri(), Size: o.GetSizeBytes(), SHA256: o.GetSha256(), Packed: o.GetUnpack()}
		if i == 0 {
			first = f
			continue
		}
		more = append(more, f)
	}
	return first, more
}

// taskEmbedding is the task of models that compute embeddings.
const taskEmbedding = "embedding"

// WithDefaults returns the settings with defaults for the fields that the caller left out. The default engine is the one
// that serves the given format.
func (s Serving) WithDefaults(format string) Serving {
	if s.Engine == "" && format == model.FormatSafetensors {
		s.Engine = EngineTransformers
	}
	if s.Engine == "" {
		s.Engine = EngineLlamaCpp
	}
	if s.Pool == "" {
		s.Pool = defaultPool
	}
	if s.Args == nil {
		s.Args = []string{}
	}
	if s.Command == nil {
		s.Command = []string{}
	}
	if s.Timeouts != nil && *s.Timeouts == (Timeouts{}) {
		s.Timeouts = nil
	}
	return s
}

// Check returns an error if the engine cannot serve the version of a model with the given task or if some settings
// belong to another engine.
func (s Serving) Check(v *model.Version, task string) error {
	switch {
	case v.Status != model.StatusReady:
		return refused("version %d of the model is %s: %s", v.Number, v.Status, v.StatusReason)
	case v.Format == model.FormatPEFT:
		return refused("version %d of the model is an adapter; deploy the merged model, which the run that trained it exports", v.Number)
	case s.Engine == EngineCommand && v.Protected:
		return fault.New(fault.Forbidden, dataset.CodeProtected,
			"version %d of the model is protected: only the engines llamacpp and transformers can serve it, because a command could print what it reads", v.Number)
	case s.Engine == EngineCommand && (len(s.Command) == 0 || s.Command[0] == ""):
		return refused("the engine \"command\" needs serving.command")
	case s.Engine == EngineCommand:
		return nil
	case s.Engine == EngineLlamaCpp && v.Format != model.FormatGGUF:
		return refused("engine llamacpp serves only gguf, but version %d of the model is %s; register its gguf artifact or use %s",
			v.Number, v.Format, engineFor(v.Format))
	case s.Engine == EngineTransformers && v.Format != model.FormatSafetensors:
		return refused("engine transformers serves only safetensors, but version %d of the model is %s; use %s", v.Number, v.Format, engineFor(v.Format))
	case s.Engine == EngineTransformers && !hasConfig(v):
		return refused("engine transformers needs the whole folder in the Hugging Face layout, but version %d of the model is only a file of weights; "+
			"import the folder, or register the artifact with it", v.Number)
	case s.Engine == EngineTransformers && task == taskEmbedding:
		return refused("engine transformers computes no embeddings; register a gguf file of the model or use the engine \"command\"")
	case len(s.Command) > 0 || s.Requirements != "":
		return refused("serving.command and serving.requirements belong to the engine command, not to %s", s.Engine)
	}
	return checkOptions(s.Engine, s.Args)
}

// hasConfig reports whether a version consists of a folder with a configuration.
func hasConfig(v *model.Version) bool {
	return v.Packed || slices.ContainsFunc(v.Files, func(f manifest.File) bool { return f.Path == "config.json" })
}

// engineFor names the engines for versions of the given format.
func engineFor(format string) string {
	if format == model.FormatGGUF {
		return "the engine llamacpp"
	}
	return "the engine transformers"
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "engine", format, args...)
}

// Digest returns the digest of the served model version and its settings.
func Digest(source Source, modelDigest string, s Serving) (string, error) {
	raw, err := json.Marshal(map[string]any{
		"source":  map[string]any{"model_id": source.ModelID, "version": source.Version, "digest": modelDigest},
		"serving": s,
	})
	if err != nil {
		return "", fmt.Errorf("encode the serving settings: %w", err)
	}
	return canon.Digest(raw)
}
