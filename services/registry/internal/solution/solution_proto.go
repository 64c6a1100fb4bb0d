package solution

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
)

// ToProto converts a solution for the API.
func ToProto(s *Solution) *registryv1.Solution {
	return &registryv1.Solution{
		Id: s.ID, Name: s.Name, Version: s.Version, Project: s.Project, Owner: s.UserName, Visibility: s.Visibility, Digest: s.Digest,
		Manifest: s.Manifest, CreatedAt: timestamppb.New(s.CreatedAt),
	}
}

func applicationToProto(a *Application) *registryv1.SolutionApplicationOut {
	return &registryv1.SolutionApplicationOut{
		Id: a.ID, Project: a.ProjectID, ProjectKey: a.Project, Solution: a.Solution, Digest: a.Digest,
		CreatedAt: timestamppb.New(a.CreatedAt), Snapshot: snapshotToProto(&a.Snapshot),
	}
}

func snapshotToProto(s *Snapshot) *registryv1.SolutionSnapshot {
	out := &registryv1.SolutionSnapshot{
		Manifest: s.Manifest, Bindings: bindingsToProto(s.Bindings), TasksetDigest: s.TasksetDigest, EvaluationTasks: s.EvaluationTasks,
		RubricVersion: s.RubricVersion, RubricDigest: s.RubricDigest, RecipeDigest: s.RecipeDigest, BusinessTaskIds: s.BusinessTaskIDs,
		BusinessCohortDigest: s.BusinessCohortDigest, Toolchain: value(s.Toolchain),
	}
	for _, r := range s.Requirements {
		out.Requirements = append(out.Requirements, r)
	}
	return out
}

// value converts raw JSON for a message, in which null is an empty field.
func value(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func bindingsToProto(b Bindings) *registryv1.SolutionBindings {
	return &registryv1.SolutionBindings{
		Model: &b.Model, TrainDataset: &b.TrainDataset, ValidationDataset: &b.ValidationDataset, Taskset: &b.Taskset, Rubric: &b.Rubric,
	}
}

func bindingsFromProto(in *registryv1.SolutionBindings) Bindings {
	return Bindings{
		Model: in.GetModel(), TrainDataset: in.GetTrainDataset(), ValidationDataset: in.GetValidationDataset(),
		Taskset: in.GetTaskset(), Rubric: in.GetRubric(),
	}
}

func statusToProto(a *Application, s *Status) *registryv1.SolutionApplicationStatus {
	out := &registryv1.SolutionApplicationStatus{Id: a.ID, Drifted: s.Drifted(), Warnings: s.Warnings}
	for _, b := range s.Bindings {
		shown := &registryv1.SolutionBindingStatus{Name: b.Name, Ref: b.Ref, State: string(b.Drift)}
		if b.Latest != "" {
			shown.Latest = &b.Latest
		}
		out.Bindings = append(out.Bindings, shown)
	}
	return out
}
