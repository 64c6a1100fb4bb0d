package jobspec

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Disclosure is what a recipe declares about the reports of its runs. If a run is protected, only these reports are
// stored. The disclosure is fixed when the job is admitted.
type Disclosure struct {
	Metrics []string `json:"metrics"`
	// Params are the hyperparameters by key, each with the strings that are valid values.
	Params  map[string][]string `json:"params"`
	Formats []string            `json:"formats"` // of artifacts
}

// readDisclosure reads the declarations of a recipe.
func readDisclosure(metrics, outputs, schema []byte) (*Disclosure, error) {
	var keys []struct {
		Key string `json:"key"`
	}
	var made []struct {
		Format string `json:"format"`
	}
	var params struct {
		Properties map[string]struct {
			Enum []any `json:"enum"`
		} `json:"properties"`
	}
	for what, part := range map[string]struct {
		raw  []byte
		into any
	}{"metrics": {metrics, &keys}, "outputs": {outputs, &made}, "params_schema": {schema, &params}} {
		if len(part.raw) == 0 {
			continue
		}
		if err := json.Unmarshal(part.raw, part.into); err != nil {
			return nil, fmt.Errorf("read %s of a recipe: %w", what, err)
		}
	}
	d := &Disclosure{Metrics: []string{}, Params: map[string][]string{}, Formats: []string{}}
	for _, m := range keys {
		d.Metrics = append(d.Metrics, m.Key)
	}
	for _, o := range made {
		if o.Format != "" && !slices.Contains(d.Formats, o.Format) {
			d.Formats = append(d.Formats, o.Format)
		}
	}
	for key, p := range params.Properties {
		d.Params[key] = []string{}
		for _, v := range p.Enum {
			if word, ok := v.(string); ok {
				d.Params[key] = append(d.Params[key], word)
			}
		}
	}
	return d, nil
}

// readGoals reads which values of the metrics of a recipe are better. Metrics without a goal are left out.
func readGoals(metrics []byte) (map[string]string, error) {
	goals := map[string]string{}
	if len(metrics) == 0 {
		return goals, nil
	}
	var declared []struct {
		Key  string `json:"key"`
		Goal string `json:"goal"`
	}
	if err := json.Unmarshal(metrics, &declared); err != nil {
		return nil, fmt.Errorf("read the goals of a recipe: %w", err)
	}
	for _, m := range declared {
		if m.Goal == GoalMinimize || m.Goal == GoalMaximize {
			goals[m.Key] = m.Goal
		}
	}
	return goals, nil
}
