package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
)

// The kinds of inputs.
const (
	kindDataset = "dataset"
	kindModel   = "model"
)

func modelFormats() []string {
	return []string{modelfile.FormatGGUF, modelfile.FormatSafetensors, modelfile.FormatPEFT}
}

// checkInputs checks the datasets and the model that a job reads. A job binds datasets by the names of the inputs; nodes
// use these names as names of folders.
func (m *Manifest) checkInputs() error {
	var inputs []struct {
		Name        string `json:"name"`
		Kind        string `json:"kind"`
		Format      string `json:"format"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
	}
	if err := decodeMember("inputs", m.Inputs, &inputs); err != nil {
		return err
	}
	if len(inputs) > maxInputs {
		return fmt.Errorf("inputs has %d entries; name at most %d", len(inputs), maxInputs)
	}
	name := regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	var names []string
	models := 0
	for i, in := range inputs {
		switch {
		case !name.MatchString(in.Name):
			return fmt.Errorf("inputs[%d].name is %q; a name has 1 to 64 lower-case letters, digits, _ and -, and begins with a letter", i, in.Name)
		case slices.Contains(names, in.Name):
			return fmt.Errorf("inputs has two entries with the name %q", in.Name)
		case in.Kind == kindModel && in.Format != "" && !slices.Contains(modelFormats(), in.Format):
			return fmt.Errorf("inputs[%d].format is %q; the format of a model is one of %s", i, in.Format, strings.Join(modelFormats(), ", "))
		case in.Kind == kindModel:
			models++
		case in.Kind != kindDataset:
			return fmt.Errorf("inputs[%d].kind is %q; write dataset or model", i, in.Kind)
		}
		if err := cmp.Or(checkText("the format of an input", in.Format, maxName), checkText("the description of an input", in.Description, maxText)); err != nil {
			return err
		}
		names = append(names, in.Name)
	}
	if models > 1 {
		return errors.New("inputs has several models; a job binds at most one")
	}
	return nil
}

// checkOutputs checks the artifacts that a run stores.
func (m *Manifest) checkOutputs() error {
	var outputs []struct {
		Kind        string `json:"kind"`
		Format      string `json:"format"`
		Description string `json:"description"`
	}
	if err := decodeMember("outputs", m.Outputs, &outputs); err != nil {
		return err
	}
	if len(outputs) > maxOutputs {
		return fmt.Errorf("outputs has %d entries; name at most %d", len(outputs), maxOutputs)
	}
	for i, out := range outputs {
		if out.Kind == "" {
			return fmt.Errorf("outputs[%d] has no kind; write that of an artifact, such as checkpoint or merged_model", i)
		}
		err := cmp.Or(checkText("the kind of an output", out.Kind, maxName), checkText("the format of an output", out.Format, maxName),
			checkText("the description of an output", out.Description, maxText))
		if err != nil {
			return err
		}
	}
	return nil
}

// checkMetrics checks the metrics that a run reports.
func (m *Manifest) checkMetrics() error {
	var metrics []struct {
		Key  string `json:"key"`
		Unit string `json:"unit"`
		Goal string `json:"goal"`
	}
	if err := decodeMember("metrics", m.Metrics, &metrics); err != nil {
		return err
	}
	if len(metrics) > maxMetrics {
		return fmt.Errorf("metrics has %d entries; name at most %d", len(metrics), maxMetrics)
	}
	for i, metric := range metrics {
		if metric.Key == "" {
			return fmt.Errorf("metrics[%d] has no key", i)
		}
		if !slices.Contains([]string{"", "minimize", "maximize"}, metric.Goal) {
			return fmt.Errorf("metrics[%d].goal is %q; write minimize or maximize, or leave it out", i, metric.Goal)
		}
		if err := cmp.Or(checkText("the key of a metric", metric.Key, maxChart), checkText("the unit of a metric", metric.Unit, maxName)); err != nil {
			return err
		}
	}
	return nil
}
