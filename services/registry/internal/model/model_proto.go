package model

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
)

// ToProto is a model as it is shown.
func ToProto(m *Model) *registryv1.Model {
	return &registryv1.Model{
		Id: m.ID, Name: m.Name, Project: m.Project, Owner: m.UserName, Description: m.Description, Task: m.Task,
		LatestVersion: m.Latest, CreatedAt: timestamppb.New(m.CreatedAt),
	}
}

func versionToProto(m *Model, v *Version) *registryv1.ModelVersion {
	out := &registryv1.ModelVersion{
		Id: v.ID, ModelId: v.ModelID, Version: v.Number, Ref: m.Ref(v.Number), Status: string(v.Status),
		Lifecycle: v.Lifecycle, Source: &registryv1.ModelSource{RunId: v.RunID, ArtifactId: v.ArtifactID},
		Format: v.Format, Digest: v.Digest, SizeBytes: v.Size, Facts: v.Facts, CreatedAt: timestamppb.New(v.CreatedAt),
	}
	if v.StatusReason != "" {
		out.StatusReason = &v.StatusReason
	}
	return out
}

// ToObject is the bytes of a version as an executor lays them out.
func ToObject(v *Version) *jobsv1.ObjectRef {
	return &jobsv1.ObjectRef{
		Path: v.File, Uri: v.URI, SizeBytes: v.Size, Sha256: strings.TrimPrefix(v.Digest, "sha256:"), Unpack: v.Packed,
	}
}

// ToInput is a version as a job reads it.
func ToInput(m *Model, v *Version) *jobsv1.ModelInput {
	return &jobsv1.ModelInput{Ref: m.Ref(v.Number), Digest: v.Digest, Files: []*jobsv1.ObjectRef{ToObject(v)}}
}
