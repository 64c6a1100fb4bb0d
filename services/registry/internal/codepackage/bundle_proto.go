package codepackage

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
)

func toProto(b *Bundle) *registryv1.Package {
	out := &registryv1.Package{
		Id: b.ID, Project: b.Project, Owner: b.UserName, Sha256: b.SHA256, SizeBytes: b.Size, State: string(b.State), CreatedAt: timestamppb.New(b.CreatedAt),
	}
	if b.Text != "" {
		out.Refusal = &b.Text
	}
	return out
}

func uploadToProto(s blob.Signed) *registryv1.PackageUpload {
	return &registryv1.PackageUpload{Url: s.URL, Method: s.Method, Headers: s.Headers, ExpiresAt: timestamppb.New(s.ExpiresAt)}
}

// ToObject returns the object from which an executor unpacks a package.
func ToObject(b *Bundle) *jobsv1.ObjectRef {
	return &jobsv1.ObjectRef{
		Path: "package.tar", Uri: blob.URI(Key(b.ProjectID, b.SHA256)), SizeBytes: b.Size, Sha256: b.SHA256, Unpack: true,
	}
}
