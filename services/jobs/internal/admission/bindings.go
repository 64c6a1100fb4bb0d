package admission

import (
	"maps"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// checkBindingNames refuses bindings that do not match the recipe's inputs. A recipe without declared inputs accepts
// any binding.
func checkBindingNames(d *Draft) error {
	for _, name := range d.Recipe.RequiredDatasets {
		if d.Spec.Bindings.Datasets[name] == "" {
			return Refuse(Bindings, "the recipe %s needs the dataset %s", d.Recipe.Name, name)
		}
	}
	if len(d.Recipe.Inputs) == 0 {
		return nil
	}
	declared := map[string]bool{}
	model := false
	for _, in := range d.Recipe.Inputs {
		declared[in.Name] = in.Kind != "model"
		model = model || in.Kind == "model"
		if in.Kind == "model" && in.Required && d.Spec.Bindings.Model == "" {
			return Refuse(Bindings, "the recipe %s needs a model: bind the reference of a version, such as mdl/default/my-model@1", d.Recipe.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Bindings.Datasets)) {
		if !declared[name] {
			return Refuse(Bindings, "the recipe %s has no input dataset %s", d.Recipe.Name, name)
		}
	}
	if d.Spec.Bindings.Model != "" && !model {
		return Refuse(Bindings, "the recipe %s has no model input", d.Recipe.Name)
	}
	return nil
}

// checkBindings refuses references that do not exist or that the caller may not see, both with the same message. A
// reference that the caller may see but not read is forbidden.
func checkBindings(in *jobspec.Inputs) error {
	if len(in.Unknown) > 0 {
		return Refuse(Bindings, "no such reference: %s", slices.Min(in.Unknown))
	}
	if len(in.Unreadable) > 0 {
		return refuseAs(fault.Forbidden, Bindings, "you may not read %s", slices.Min(in.Unreadable))
	}
	return nil
}

// checkModelFormat refuses a model in another format than the recipe reads.
func checkModelFormat(r *jobspec.Recipe, in *jobspec.Inputs) error {
	if in.Model == nil || in.Model.Format == "" {
		return nil
	}
	for _, wanted := range r.Inputs {
		if wanted.Kind == "model" && wanted.Format != "" && wanted.Format != in.Model.Format {
			return Refuse(Bindings, "the recipe %s needs a model in the format %s; %s is in the format %s", r.Name, wanted.Format, in.Model.Ref, in.Model.Format)
		}
	}
	return nil
}

// inherit protects the inputs of a job that continues from data of a protected run.
func inherit(in *jobspec.Inputs, from *Protection) {
	if from == nil {
		return
	}
	in.Protected = true
	for _, id := range from.Datasets {
		if !slices.Contains(in.ProtectedDatasets, id) {
			in.ProtectedDatasets = append(in.ProtectedDatasets, id)
		}
	}
}

// checkTrust refuses protected inputs unless the recipe is trusted: other code could print the records.
func checkTrust(r *jobspec.Recipe, in *jobspec.Inputs) error {
	if !in.Protected || r.Trusted {
		return nil
	}
	return refuseAs(fault.Forbidden, Bindings, "the recipe %s may not read protected data; "+
		"use a recipe that the installation ships, or one that an administrator trusts", r.Name)
}
