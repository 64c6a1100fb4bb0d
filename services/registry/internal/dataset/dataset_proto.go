package dataset

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
)

// ToProto converts a dataset for the API.
func ToProto(d *Dataset) *registryv1.Dataset {
	return &registryv1.Dataset{
		Id: d.ID, Name: d.Name, Project: d.Project, Owner: d.UserName, Description: d.Description, Format: d.Format,
		LatestVersion: d.Latest, CreatedAt: timestamppb.New(d.CreatedAt), Protected: d.Protected, Visibility: d.Visibility,
	}
}

func versionToProto(d *Dataset, v *Version) *registryv1.DatasetVersion {
	out := &registryv1.DatasetVersion{
		Id: v.ID, DatasetId: v.DatasetID, Version: v.Version, State: string(v.State), Digest: v.Digest,
		Files: int32(v.Count), Bytes: v.Bytes, Ref: d.Ref(v.Version), CreatedAt: timestamppb.New(v.CreatedAt),
	}
	if !d.Protected {
		out.Manifest = manifest.ToProto(v.Manifest)
	}
	out.CommittedAt = request.OptionalTime(v.CommittedAt)
	out.ArchivedAt = request.OptionalTime(v.ArchivedAt)
	return out
}

// ToInput converts a version into an input of a job. LoadInputs must have been called on the version. The agent unpacks
// the packs.
func ToInput(name string, d *Dataset, v *Version) *jobsv1.DatasetInput {
	in := &jobsv1.DatasetInput{Name: name, Ref: d.Ref(v.Version), Digest: v.Digest}
	for _, p := range v.Packs {
		in.Files = append(in.Files, &jobsv1.ObjectRef{
			Path: p.SHA256 + ".tar", Uri: blob.URI(p.key(d)), SizeBytes: p.Size, Sha256: p.SHA256, Unpack: true,
		})
	}
	for _, f := range v.Alone {
		in.Files = append(in.Files, &jobsv1.ObjectRef{
			Path: f.Path, Uri: blob.URI(v.key(d, f.SHA256)), SizeBytes: f.Size, Sha256: f.SHA256,
		})
	}
	return in
}
