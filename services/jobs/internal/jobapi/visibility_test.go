package jobapi

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
)

// auth is a service in which every project exists, with version 5 of its visibility.
type auth struct {
	authpeerv1.ProjectServiceClient
}

func (auth) GetProject(_ context.Context, in *authpeerv1.GetProjectRequest, _ ...grpc.CallOption) (*authpeerv1.Project, error) {
	return &authpeerv1.Project{Id: "prj_1", Key: in.GetProject(), Visibility: "all", VisibilityVersion: 5}, nil
}

// The version shows whether the job's project was looked up before or after a change of its visibility.
func TestServer_SubmitJob_storesVisibilityVersion(t *testing.T) {
	t.Parallel()
	a, pool := newAdmission(t)
	a.Inputs.Projects = &AuthProjects{Client: auth{}}
	got, err := (&Server{Admission: a}).SubmitJob(as(t.Context()), submission())
	require.NoError(t, err)
	for _, sql := range []string{`SELECT visibility_version FROM job WHERE id = $1`, `SELECT visibility_version FROM run WHERE job_id = $1`} {
		var version int64
		require.NoError(t, pool.QueryRow(t.Context(), sql, got.GetId()).Scan(&version))
		require.EqualValues(t, 5, version, sql)
	}
}
