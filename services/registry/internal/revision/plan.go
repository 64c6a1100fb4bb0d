package revision

import (
	"encoding/json"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
)

// The engines.
const (
	EngineLlamaCpp = "llamacpp"
	EngineCommand  = "command"
)

// defaultPool is where engines run.
const defaultPool = "default"

// Plan is what the engine of a revision is asked to be, all that depends on rows that may change.
type Plan struct {
	Model       File     `json:"model"`
	ModelDigest string   `json:"model_digest"`
	ServedNames []string `json:"served_names"`
	Task        string   `json:"task"`
	ProbeS      int32    `json:"probe_deadline_s"`
	OwnerID     string   `json:"owner_id"`
	ProjectID   string   `json:"project_id"`
}

// File is the model's object.
type File struct {
	Path   string `json:"path"`
	URI    string `json:"uri"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Packed bool   `json:"packed"`
}

// Fill puts the defaults into what the caller left out.
func (s Serving) Fill() Serving {
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
	return s
}

// Check refuses an engine that cannot serve the version, or settings of another engine.
func (s Serving) Check(v *model.Version) error {
	switch {
	case v.Status != model.StatusReady:
		return refused("version %d of the model is %s: %s", v.Number, v.Status, v.StatusReason)
	case s.Engine == EngineLlamaCpp && v.Format != model.FormatGGUF:
		return refused("the engine llamacpp serves gguf, and version %d of the model is %s; register its gguf artifact, or serve it with the engine command",
			v.Number, v.Format)
	case s.Engine == EngineLlamaCpp && (len(s.Command) > 0 || s.Requirements != ""):
		return refused("serving.command and serving.requirements belong to the engine command, not to llamacpp")
	case s.Engine == EngineCommand && (len(s.Command) == 0 || s.Command[0] == ""):
		return refused("the engine command needs serving.command")
	}
	return nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "engine", format, args...)
}

// Digest names what is served and how.
func Digest(source Source, modelDigest string, s Serving) (string, error) {
	raw, err := json.Marshal(map[string]any{
		"source":  map[string]any{"model_id": source.ModelID, "version": source.Version, "digest": modelDigest},
		"serving": s,
	})
	if err != nil {
		return "", fmt.Errorf("write what is served: %w", err)
	}
	return canon.Digest(raw)
}
