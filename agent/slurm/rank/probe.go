package rank

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Probe is the result of the test of a node.
type Probe struct {
	Node     string          `json:"node"`
	Boundary boundary.Report `json:"boundary"`
}

// Question is what the agent wants tested: how the node isolates works of the given place.
type Question struct {
	Place host.Place `json:"place"`
}

func questionFile(dir string) string { return filepath.Join(dir, "question.json") }
func probeFile(dir string) string    { return filepath.Join(dir, "probe.json") }

// Write writes the question into a folder that the agent and the node share.
func (q Question) Write(dir string) error {
	return localfile.WriteJSON(questionFile(dir), q, localfile.PrivateMode)
}

// ReadProbe reads the result of a test. found is false if it does not exist yet.
func ReadProbe(dir string) (p Probe, found bool, err error) {
	err = localfile.ReadJSON(probeFile(dir), &p)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	return p, err == nil, err
}

// probe tries how this node isolates works and writes the result to the folder.
func (p Process) probe(ctx context.Context, dir string) error {
	var q Question
	if err := localfile.ReadJSON(questionFile(dir), &q); err != nil {
		return err
	}
	n, remove, err := p.node(ctx, q.Place)
	if remove != nil {
		defer remove()
	}
	if err != nil {
		return err
	}
	report, err := n.Report(ctx)
	if err != nil {
		return err
	}
	name, err := (&rankProcess{Process: p}).hostname()
	if err != nil {
		return err
	}
	return localfile.WriteJSON(probeFile(dir), Probe{Node: name, Boundary: report}, localfile.PrivateMode)
}
