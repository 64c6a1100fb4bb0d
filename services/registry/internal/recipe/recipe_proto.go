package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/canon"
)

// timeLayout is the time format of the API.
const timeLayout = "2006-01-02T15:04:05.000000-07:00"

// ToProto converts a version for the API.
func ToProto(v *Version) *registryv1.Recipe {
	m := &registryv1.Recipe{
		Name: v.Name, Version: v.Manifest.Version, Digest: v.Digest, Title: v.Title, Description: v.Description,
		Framework: framework(v), ParamsSchema: v.ParamsSchema, ResourcesHint: v.ResourcesHint, Inputs: v.Inputs,
		Outputs: v.Outputs, Metrics: v.Metrics, Resumable: v.Resumable, State: v.State, Trusted: v.Trusted(),
		Charts: v.Charts,
	}
	if v.ProjectID != "" {
		m.Project, m.Owner = &v.Project, &v.UserName
	}
	return m
}

// toListed converts a version for a list. Of a version that a project has published, it leaves out the members that can be
// large, so that every page fits into a message.
func toListed(v *Version) *registryv1.Recipe {
	m := ToProto(v)
	if v.ProjectID != "" {
		m.ParamsSchema, m.ResourcesHint = []byte(`{}`), []byte(`{}`)
		m.Inputs, m.Outputs, m.Metrics, m.Charts = []byte(`[]`), []byte(`[]`), []byte(`[]`), nil
	}
	return m
}

func framework(v *Version) *registryv1.RecipeFramework {
	return &registryv1.RecipeFramework{
		Name: v.Framework.Name, RuntimeId: v.Framework.RuntimeID, Image: v.Framework.Image,
	}
}

func lockToProto(v *Version, catalogDigest string) (*registryv1.RecipeLockDocument, error) {
	params, err := canon.Digest(v.ParamsSchema)
	if err != nil {
		return nil, fmt.Errorf("digest the parameter schema of %s: %w", v.Name, err)
	}
	return &registryv1.RecipeLockDocument{
		Api: v.API, Name: v.Name, Version: v.Manifest.Version, Digest: v.Digest, Framework: framework(v),
		ParamsSchemaDigest: params, CatalogDigest: catalogDigest, LockedAt: v.LockedAt.UTC().Format(timeLayout),
	}, nil
}

// ToCatalog converts a version for the jobs service, with everything that the service needs to admit and run a job.
func ToCatalog(v *Version) (*registrypeerv1.CatalogRecipe, error) {
	required, err := v.RequiredDatasets()
	if err != nil {
		return nil, err
	}
	return &registrypeerv1.CatalogRecipe{
		Recipe: ToProto(v), Entrypoint: v.Entrypoint, RequiredDatasets: required,
		Package: &jobsv1.ObjectRef{
			Path: "package.tar", Uri: blob.URI(v.TreeKey()), SizeBytes: v.TreeBytes, Sha256: v.TreeSHA256, Unpack: true,
		},
		Environment: environment(v),
	}, nil
}

// environment returns the environment of the jobs of a version. The requirements that a project has published are those
// of a user: a node reads them from the tree and installs only wheels.
func environment(v *Version) *jobsv1.EnvironmentSpec {
	if v.ProjectID != "" && v.Requirements != "" {
		return &jobsv1.EnvironmentSpec{Lock: v.Requirements, Sdk: true}
	}
	sum := sha256.Sum256([]byte(v.RequirementsText))
	return &jobsv1.EnvironmentSpec{Requirements: v.RequirementsText, Digest: "sha256:" + hex.EncodeToString(sum[:]), Sdk: true}
}
