package e2eflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Round is a validation round as the API returns it.
type Round struct {
	Step      int64    `json:"step"`
	AvgReward *float64 `json:"avg_reward"`
	Accuracy  *float64 `json:"accuracy"`
	Samples   int      `json:"samples"`
	Complete  bool     `json:"complete"`
}

// Sample is one validation sample of the demo's recipe, with the output of the model and the expected output.
type Sample struct {
	Question string
	Answer   string
	Expected string
	Reward   float64
}

// Artifact is an output that the run has registered.
type Artifact struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Format string `json:"format"`
	Step   *int64 `json:"step"`
	SHA256 string `json:"sha256"`
}

// Rounds lists the run's validation rounds by step.
func (l *Loop) Rounds(ctx context.Context) ([]Round, error) {
	var rounds []Round
	if err := l.get(ctx, "/api/runs/"+l.Job.RunID+"/validations?limit=500", &rounds); err != nil {
		return nil, fmt.Errorf("list validation rounds: %w", err)
	}
	if len(rounds) == 0 {
		return nil, errors.New("the run reported no validation round")
	}
	return rounds, nil
}

// samplePage is how many samples one request fetches.
const samplePage = 500

// Samples lists every sample of the run's last validation round.
func (l *Loop) Samples(ctx context.Context) ([]Sample, error) {
	var all []Sample
	for offset := 0; ; offset += samplePage {
		var page []struct {
			User      string `json:"user"`
			Assistant string `json:"assistant"`
			Env       struct {
				Expected json.RawMessage `json:"expected"`
			} `json:"env"`
			Reward float64 `json:"reward"`
		}
		path := fmt.Sprintf("/api/runs/%s/samples?limit=%d&offset=%d", l.Job.RunID, samplePage, offset)
		if err := l.get(ctx, path, &page); err != nil {
			return nil, fmt.Errorf("list samples: %w", err)
		}
		for _, s := range page {
			all = append(all, Sample{Question: s.User, Answer: s.Assistant, Expected: text(s.Env.Expected), Reward: s.Reward})
		}
		if len(page) < samplePage {
			return all, nil
		}
	}
}

// text returns the text of a JSON string or number, and "" for null.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// Artifacts lists the artifacts of the run.
func (l *Loop) Artifacts(ctx context.Context) ([]Artifact, error) {
	var list []Artifact
	if err := l.get(ctx, "/api/runs/"+l.Job.RunID+"/artifacts?limit=500", &list); err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	return list, nil
}

// FindArtifact returns the run's last artifact of the given kind and format.
func (l *Loop) FindArtifact(ctx context.Context, kind, format string) (Artifact, error) {
	list, err := l.Artifacts(ctx)
	if err != nil {
		return Artifact{}, err
	}
	for _, a := range slices.Backward(list) {
		if a.Kind == kind && a.Format == format {
			return a, nil
		}
	}
	return Artifact{}, fmt.Errorf("the run registered no %s in format %s", kind, format)
}
