package registry

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
)

// others stubs the other services. It records the requested ids and returns fixed responses together with the error
// err.
type others struct {
	authpeerv1.ProjectServiceClient
	jobspeerv1.RunPeerServiceClient
	ingestpeerv1.RunDataPeerServiceClient

	requested []string
	err       error
}

func (o *others) GetProject(_ context.Context, in *authpeerv1.GetProjectRequest, _ ...grpc.CallOption) (*authpeerv1.Project, error) {
	o.requested = append(o.requested, in.GetProject())
	return &authpeerv1.Project{Id: "prj_1", Key: "team", Visibility: "team", VisibilityVersion: 3, Archived: true}, o.err
}

func (o *others) GetRunOwner(_ context.Context, in *jobspeerv1.GetRunOwnerRequest, _ ...grpc.CallOption) (*jobspeerv1.RunOwner, error) {
	o.requested = append(o.requested, in.GetId())
	return &jobspeerv1.RunOwner{RunId: in.GetId(), OwnerId: "usr_1", ProjectId: "prj_1", Project: "team", Visibility: "team", Protected: true, ProtectedDatasets: []string{"ds_1"}}, o.err
}

func (o *others) GetArtifact(_ context.Context, in *ingestpeerv1.GetArtifactRequest, _ ...grpc.CallOption) (*ingestpeerv1.GetArtifactResponse, error) {
	o.requested = append(o.requested, in.GetRunId(), in.GetArtifactId())
	return &ingestpeerv1.GetArtifactResponse{
		Artifact: &ingestv1.Artifact{
			Id: "art_1", RunId: "run_1", Kind: "merged_model", Format: "gguf", Path: "out/m.gguf", SizeBytes: 9, Sha256: new("ab"), Name: "out/モ.gguf",
		},
		Uri: "blob://x", Packed: true,
	}, o.err
}

func TestClients_copyAllFields(t *testing.T) {
	t.Parallel()
	o := &others{}
	project, err := (&projectClient{Client: o}).Project(t.Context(), "team")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&access.Project{ID: "prj_1", Key: "team", Visibility: "team", VisibilityVersion: 3, Archived: true}, project))
	artifacts := &artifactClient{Runs: o, Data: o}
	from, err := artifacts.Origin(t.Context(), "run_1")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(model.Origin{
		Owner:     access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"},
		Protected: true, ProtectedDatasets: []string{"ds_1"},
	}, from))
	artifact, err := artifacts.Artifact(t.Context(), "run_1", "art_1")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&model.Artifact{
		ID: "art_1", RunID: "run_1", Kind: "merged_model", Format: "gguf", Path: "out/m.gguf", Name: "out/モ.gguf", Size: 9, SHA256: "ab", URI: "blob://x", Packed: true,
	}, artifact))
	require.Equal(t, []string{"team", "run_1", "run_1", "art_1"}, o.requested)
}

func TestClients_unknownProjectIsNilOtherErrorsPassThrough(t *testing.T) {
	t.Parallel()
	o := &others{err: fault.Absentf("project", "team")}
	project, err := (&projectClient{Client: o}).Project(t.Context(), "team")
	require.NoError(t, err)
	require.Nil(t, project)
	artifacts := &artifactClient{Runs: o, Data: o}
	_, err = artifacts.Origin(t.Context(), "run_1")
	require.True(t, fault.Is(err, fault.Absent), "the run is absent and has no owner")
	_, err = artifacts.Artifact(t.Context(), "run_1", "art_1")
	require.True(t, fault.Is(err, fault.Absent))

	o.err = fault.New(fault.Unavailable, "unavailable", "unavailable")
	project, err = (&projectClient{Client: o}).Project(t.Context(), "team")
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Nil(t, project, "no project is returned")
	from, err := artifacts.Origin(t.Context(), "run_1")
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Equal(t, model.Origin{}, from)
	artifact, err := artifacts.Artifact(t.Context(), "run_1", "art_1")
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Nil(t, artifact)
}
