package environment

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// ToProto converts an environment for the API.
func ToProto(e *Environment) *registryv1.Environment {
	return &registryv1.Environment{
		Id: e.ID, Name: e.Name, Project: e.Project, Owner: e.UserName, Description: e.Description, Visibility: e.Visibility,
		LatestVersion: e.Latest, CreatedAt: timestamppb.New(e.CreatedAt),
	}
}

func versionToProto(e *Environment, v *Version) (*registryv1.EnvironmentVersion, error) {
	manifest := &registryv1.EnvironmentManifest{}
	if err := protojson.Unmarshal(v.Manifest, manifest); err != nil {
		return nil, fmt.Errorf("read the manifest of an environment: %w", err)
	}
	out := &registryv1.EnvironmentVersion{
		Id: v.ID, EnvironmentId: v.EnvironmentID, Version: v.Version, Ref: e.Ref(v.Version), State: string(v.State), Digest: v.Digest,
		Manifest: manifest, CreatedAt: timestamppb.New(v.CreatedAt),
	}
	if v.Reason != "" {
		out.Reason = &v.Reason
	}
	if v.Package.SHA256 != "" {
		out.Package = &registryv1.EnvironmentPackage{Sha256: v.Package.SHA256, SizeBytes: v.Package.Size}
	}
	out.ReadyAt = request.OptionalTime(v.ReadyAt)
	return out, nil
}

// manifestFromProto returns the document that is stored and digested. It contains every member, so that absent and
// empty members give the same digest. It has no 64-bit integers, which protojson would write as strings.
func manifestFromProto(in *registryv1.EnvironmentManifest) (json.RawMessage, error) {
	rewards := make([]Reward, 0, len(in.GetRewardComponents()))
	for _, r := range in.GetRewardComponents() {
		rewards = append(rewards, Reward{Name: r.GetName(), Range: r.GetRange()})
	}
	t := in.GetTaskset()
	err := Check(Taskset{Digest: t.GetDigest(), Count: t.GetCount(), Splits: t.GetSplits(), Infinite: t.GetInfinite()}, rewards)
	if err != nil {
		return nil, err
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of an environment: %w", err)
	}
	return raw, nil
}

func packageFromProto(in *registryv1.EnvironmentPackage) Package {
	return Package{SHA256: in.GetSha256(), Size: in.GetSizeBytes()}
}
