package dataset_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// callerCtx returns the context of a call by a user with the given role and project roles.
func callerCtx(t *testing.T, subject, role string, in ...authn.ProjectRole) context.Context {
	t.Helper()
	ctx := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: role, Projects: in})
	ctx = authn.WithNeed(ctx, authn.NeedEdit)
	return grpc.NewContextWithServerTransportStream(ctx, &headers{})
}

func TestDatasetPermissions(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	d.push(s, "v1", "hello")
	n := 0
	reads := map[string]func(ctx context.Context, at string) error{
		"GetDataset": func(ctx context.Context, at string) error {
			_, err := d.GetDataset(ctx, &registryv1.GetDatasetRequest{DatasetId: at})
			return err
		},
		"ListDatasetVersions": func(ctx context.Context, at string) error {
			_, err := d.ListDatasetVersions(ctx, &registryv1.ListDatasetVersionsRequest{DatasetId: at})
			return err
		},
		"GetDatasetVersion": func(ctx context.Context, at string) error {
			_, err := d.GetDatasetVersion(ctx, &registryv1.GetDatasetVersionRequest{DatasetId: at, Version: "v1"})
			return err
		},
	}
	writes := map[string]func(ctx context.Context, at string) error{
		"CreateDatasetVersion": func(ctx context.Context, at string) error {
			n++
			_, err := d.CreateDatasetVersion(ctx, &registryv1.CreateDatasetVersionRequest{DatasetId: at, Version: fmt.Sprint("w", n), Files: of("a", "x")})
			return err
		},
		"CommitDatasetVersion": func(ctx context.Context, at string) error {
			_, err := d.CommitDatasetVersion(ctx, &registryv1.CommitDatasetVersionRequest{DatasetId: at, Version: "v1"})
			return err
		},
	}
	const unknown = "ds_01k00000000000000000000077"
	for name, p := range map[string]struct {
		ctx          context.Context
		sees, writes bool
	}{
		"owner":     {callerCtx(t, "usr_1", authn.RoleOperator), true, true},
		"editor":    {callerCtx(t, "usr_2", authn.RoleOperator, authn.ProjectRole{Project: "prj_team", Role: authn.ProjectEditor}), true, true},
		"viewer":    {callerCtx(t, "usr_3", authn.RoleOperator, authn.ProjectRole{Project: "prj_team", Role: authn.ProjectViewer}), true, false},
		"stranger":  {callerCtx(t, "usr_4", authn.RoleOperator, authn.ProjectRole{Project: "prj_other", Role: authn.ProjectOwner}), false, false},
		"admin":     {callerCtx(t, "usr_5", authn.RoleAdmin), true, true},
		"anonymous": {authn.NewContext(t.Context(), &authn.Caller{}), false, false},
	} {
		check := func(what string, call func(context.Context, string) error, allowed bool) {
			err := call(p.ctx, s.GetId())
			switch {
			case !p.sees:
				absent := call(p.ctx, unknown)
				require.True(t, fault.Is(err, fault.Absent), "%s of %s: %v", what, name, err)
				require.Equal(t, fault.From(absent).Text(), strings.ReplaceAll(fault.From(err).Text(), s.GetId(), unknown))
			case !allowed:
				require.True(t, fault.Is(err, fault.Forbidden), "%s of %s: %v", what, name, err)
			default:
				require.NoError(t, err, "%s of %s", what, name)
			}
			require.True(t, fault.Is(call(p.ctx, "ds_1"), fault.Invalid), "a malformed id is invalid for every caller")
		}
		for what, call := range reads {
			check(what, call, true)
		}
		for what, call := range writes {
			check(what, call, p.writes)
		}
	}
}

func TestDatasetVersion_unknownIsAbsent(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	ctx, _ := as(t, "usr_1", "")
	_, err := d.GetDatasetVersion(ctx, &registryv1.GetDatasetVersionRequest{DatasetId: s.GetId(), Version: "v9"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = d.commit("usr_1", s, "v9")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.Equal(t, "no such dataset version: v9", fault.From(err).Text())
}

func TestCreateDataset_fieldsAndFormats(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	ctx, _ := as(t, "usr_1", "")
	for format, want := range map[string]string{"": "jsonl", "jsonl": "jsonl", "parquet": "parquet", "webdataset": "webdataset", "files": "files"} {
		made, err := d.CreateDataset(ctx, &registryv1.CreateDatasetRequest{Name: "x" + format, Project: "team", Description: "words", Format: format})
		require.NoError(t, err)
		require.NoError(t, id.Check(id.Dataset, made.GetId()))
		require.Equal(t, []string{"x" + format, "team", "usr_1", "words", want},
			[]string{made.GetName(), made.GetProject(), made.GetOwner(), made.GetDescription(), made.GetFormat()})
		require.Nil(t, made.LatestVersion)
		got, err := d.GetDataset(ctx, &registryv1.GetDatasetRequest{DatasetId: made.GetId()})
		require.NoError(t, err)
		require.True(t, proto.Equal(made, got))
	}
	_, err := d.CreateDataset(ctx, &registryv1.CreateDatasetRequest{Name: "x", Project: "team"})
	require.True(t, fault.HasCode(err, "dataset_exists") && fault.Is(err, fault.Conflict), "%v", err)
	_, err = d.CreateDataset(ctx, &registryv1.CreateDatasetRequest{Name: "x", Project: "other"})
	require.NoError(t, err, "names are unique per project")
}

func TestListDatasets_pages(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	for n := range 5 {
		d.make(fmt.Sprint("d", n), "team")
	}
	s := d.make("versions", "other")
	for n := range 5 {
		d.push(s, fmt.Sprint("v", n), fmt.Sprint(n))
	}
	lists := map[string]func(ctx context.Context, limit, offset *int32) ([]string, error){
		"datasets": func(ctx context.Context, limit, offset *int32) (out []string, err error) {
			got, err := d.ListDatasets(ctx, &registryv1.ListDatasetsRequest{Limit: limit, Offset: offset})
			for _, row := range got.GetDatasets() {
				out = append(out, row.GetName())
			}
			return out, err
		},
		"versions": func(ctx context.Context, limit, offset *int32) (out []string, err error) {
			got, err := d.ListDatasetVersions(ctx, &registryv1.ListDatasetVersionsRequest{DatasetId: s.GetId(), Limit: limit, Offset: offset})
			for _, row := range got.GetVersions() {
				require.Empty(t, row.GetManifest())
				out = append(out, row.GetVersion())
			}
			return out, err
		},
	}
	wants := map[string][]string{"datasets": {"versions", "d4", "d3", "d2", "d1", "d0"}, "versions": {"v4", "v3", "v2", "v1", "v0"}}
	for name, read := range lists {
		ctx, _ := as(t, "usr_1", "")
		got, err := read(ctx, nil, nil)
		require.NoError(t, err)
		require.Equal(t, wants[name], got, "newest first, also if created at the same time")
		middle, h := as(t, "usr_1", "")
		got, err = read(middle, new(int32(2)), new(int32(1)))
		require.NoError(t, err)
		require.Equal(t, wants[name][1:3], got)
		require.Equal(t, []string{"true"}, h.sent.Get("x-service-more"))
		for _, bad := range [][2]int32{{0, 0}, {501, 0}, {1, -1}, {1, 100_001}} {
			_, err := read(ctx, &bad[0], &bad[1])
			require.True(t, fault.Is(err, fault.Invalid), "%s %v: %v", name, bad, err)
		}
	}
	ctx, _ := as(t, "usr_1", "")
	one, err := d.ListDatasets(ctx, &registryv1.ListDatasetsRequest{Name: new("d3")})
	require.NoError(t, err)
	require.Len(t, one.GetDatasets(), 1)
}
