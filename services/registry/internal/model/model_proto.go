package model

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/modelcard"
)

// ToProto converts a model for the API.
func ToProto(m *Model) *registryv1.Model {
	return &registryv1.Model{
		Id: m.ID, Name: m.Name, Project: m.Project, Owner: m.UserName, Description: m.Description, Task: m.Task,
		LatestVersion: m.Latest, CreatedAt: timestamppb.New(m.CreatedAt), Aliases: m.Aliases,
	}
}

func versionToProto(m *Model, v *Version) *registryv1.ModelVersion {
	out := &registryv1.ModelVersion{
		Id: v.ID, ModelId: v.ModelID, Version: v.Number, Ref: m.Ref(v.Number), Status: string(v.Status),
		Lifecycle: v.Lifecycle,
		Format:    v.Format, Digest: v.Digest, SizeBytes: v.Size, Facts: v.Facts, CreatedAt: timestamppb.New(v.CreatedAt),
		CardDigest: v.CardDigest, PromotedBy: v.PromotedBy, Protected: v.Protected, Base: v.Base, Pickle: v.Pickle,
	}
	if v.RunID != "" {
		out.Source = &registryv1.ModelSource{RunId: v.RunID, ArtifactId: v.ArtifactID}
	}
	out.PromotedAt = request.OptionalTime(v.PromotedAt)
	if v.StatusReason != "" {
		out.StatusReason = &v.StatusReason
	}
	return out
}

func changeToProto(c *Change) *registryv1.ModelChange {
	out := &registryv1.ModelChange{
		Id: c.ID, At: timestamppb.New(c.At), Action: c.Action, Version: c.Version, PreviousVersion: c.Previous, Actor: c.Actor, Note: c.Note,
	}
	if c.Alias != "" {
		out.Alias = &c.Alias
	}
	return out
}

func cardToProto(c *modelcard.Card) *registryv1.ModelCard {
	return &registryv1.ModelCard{
		ModelId: c.ModelID, Version: c.Version, Revision: c.Revision, Content: c.Content, FrontMatter: c.Front, Body: c.Body(),
		Digest: c.Digest, Author: c.Author, CreatedAt: timestamppb.New(c.CreatedAt),
	}
}

// ToObjects returns the files of a version that an executor downloads.
func ToObjects(v *Version) []*jobsv1.ObjectRef {
	if len(v.Files) == 0 {
		return []*jobsv1.ObjectRef{{
			Path: v.File, Uri: v.URI, SizeBytes: v.Size, Sha256: strings.TrimPrefix(v.Digest, "sha256:"), Unpack: v.Packed,
		}}
	}
	out := make([]*jobsv1.ObjectRef, 0, len(v.Files))
	for _, f := range v.Files {
		out = append(out, &jobsv1.ObjectRef{Path: f.Path, Uri: v.URI + "/" + f.SHA256, SizeBytes: f.Size, Sha256: f.SHA256})
	}
	return out
}

// ToInput returns a version as the model input of a job.
func ToInput(m *Model, v *Version) *jobsv1.ModelInput {
	return &jobsv1.ModelInput{Ref: m.Ref(v.Number), Digest: v.Digest, Files: ToObjects(v), Format: v.Format}
}
