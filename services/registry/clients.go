package registry

import (
	"context"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// projectClient reads projects from the auth service.
type projectClient struct {
	Client authpeerv1.ProjectServiceClient
}

// Project returns a project by its key, or nil if the key is unknown.
func (p *projectClient) Project(ctx context.Context, key string) (*access.Project, error) {
	out, err := p.Client.GetProject(ctx, &authpeerv1.GetProjectRequest{Project: key})
	if fault.Is(err, fault.Absent) {
		return nil, nil //nolint:nilnil // an unknown project is not an error
	}
	if err != nil {
		return nil, err
	}
	return &access.Project{
		ID: out.GetId(), Key: out.GetKey(), Visibility: out.GetVisibility(), VisibilityVersion: out.GetVisibilityVersion(), Archived: out.GetArchived(),
	}, nil
}

// artifactClient reads artifacts of runs. It gets the owner of a run from the jobs service and the location of an
// artifact from the ingest service.
type artifactClient struct {
	Runs    jobspeerv1.RunPeerServiceClient
	Data    ingestpeerv1.RunDataPeerServiceClient
	Lineage jobspeerv1.RunLineagePeerServiceClient
}

// Origin returns the owner of a run and whether it is protected. If the run is unknown, it returns an error of kind
// fault.Absent.
func (a *artifactClient) Origin(ctx context.Context, runID string) (model.Origin, error) {
	out, err := a.Runs.GetRunOwner(ctx, &jobspeerv1.GetRunOwnerRequest{Id: runID})
	if err != nil {
		return model.Origin{}, err
	}
	return model.Origin{
		Owner: access.Owner{
			UserID: out.GetOwnerId(), ProjectID: out.GetProjectId(), Project: out.GetProject(), Visibility: out.GetVisibility(),
		},
		Protected: out.GetProtected(), ProtectedDatasets: out.GetProtectedDatasets(),
	}, nil
}

// Artifact returns an artifact of a run. If the artifact is unknown, it returns an error of kind fault.Absent.
func (a *artifactClient) Artifact(ctx context.Context, runID, artifactID string) (*model.Artifact, error) {
	out, err := a.Data.GetArtifact(ctx, &ingestpeerv1.GetArtifactRequest{RunId: runID, ArtifactId: artifactID})
	if err != nil {
		return nil, err
	}
	m := out.GetArtifact()
	return &model.Artifact{
		ID: m.GetId(), RunID: m.GetRunId(), Kind: m.GetKind(), Format: m.GetFormat(), Path: m.GetPath(), Name: m.GetName(),
		Size: m.GetSizeBytes(), SHA256: m.GetSha256(), URI: out.GetUri(), Packed: out.GetPacked(),
	}, nil
}

// StartedFrom returns the reference of the model version from which a run started, or "".
func (a *artifactClient) StartedFrom(ctx context.Context, runID string) (string, error) {
	out, err := a.Lineage.ListLineageRuns(ctx, &jobspeerv1.ListLineageRunsRequest{Ids: []string{runID}})
	if err != nil {
		return "", err
	}
	for _, run := range out.GetRuns() {
		for _, from := range run.GetSources() {
			if _, ok := ref.Parse(ref.Model, from.GetSource()); ok {
				return from.GetSource(), nil
			}
		}
	}
	return "", nil
}

// jobClient reads unfinished jobs from the jobs service.
type jobClient struct {
	Runs jobspeerv1.RunPeerServiceClient
}

// UsersOf returns the ids of the unfinished jobs that start from a version of a model.
func (j *jobClient) UsersOf(ctx context.Context, ref string) ([]string, error) {
	out, err := j.Runs.ListModelUsers(ctx, &jobspeerv1.ListModelUsersRequest{Ref: ref})
	return out.GetJobIds(), err
}
