package environment_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
)

func TestEnvironmentLifecycle(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	require.Equal(t, []string{"math", "team", "usr_1", "team"}, []string{e.GetName(), e.GetProject(), e.GetOwner(), e.GetVisibility()})
	ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
	_, err := d.CreateEnvironment(ctx, &registryv1.CreateEnvironmentRequest{Name: "math", Project: "team"})
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "environment_exists"), "%v", err)
	updated, err := d.UpdateEnvironment(ctx, &registryv1.UpdateEnvironmentRequest{EnvironmentId: e.GetId(), Description: new("sums")})
	require.NoError(t, err)
	require.Equal(t, "sums", updated.GetDescription())
	same, err := d.UpdateEnvironment(ctx, &registryv1.UpdateEnvironmentRequest{EnvironmentId: e.GetId()})
	require.NoError(t, err)
	require.True(t, proto.Equal(updated, same))
	require.Equal(t, 1, d.count(`audit WHERE action = 'environment.update'`))
	_, err = d.DeleteEnvironment(ctx, &registryv1.DeleteEnvironmentRequest{EnvironmentId: e.GetId()})
	require.NoError(t, err)
	for name, call := range d.calls(e.GetId()) {
		require.True(t, fault.Is(call(ctx), fault.Absent), name)
	}
	list, err := d.ListEnvironments(ctx, &registryv1.ListEnvironmentsRequest{})
	require.NoError(t, err)
	require.Empty(t, list.GetEnvironments())
	require.NotEqual(t, e.GetId(), d.make("math").GetId(), "the name can be used again")
}

// calls returns every call on one environment. The names of calls that change the environment end in "!".
func (d *harness) calls(id string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := d.GetEnvironment(ctx, &registryv1.GetEnvironmentRequest{EnvironmentId: id})
			return err
		},
		"versions": func(ctx context.Context) error {
			_, err := d.ListEnvironmentVersions(ctx, &registryv1.ListEnvironmentVersionsRequest{EnvironmentId: id})
			return err
		},
		"version": func(ctx context.Context) error {
			_, err := d.GetEnvironmentVersion(ctx, &registryv1.GetEnvironmentVersionRequest{EnvironmentId: id, Version: "v1"})
			return err
		},
		"update!": func(ctx context.Context) error {
			_, err := d.UpdateEnvironment(ctx, &registryv1.UpdateEnvironmentRequest{EnvironmentId: id, Description: new("x")})
			return err
		},
		"upload!": func(ctx context.Context) error {
			_, err := d.SignEnvironmentUpload(ctx, &registryv1.SignEnvironmentUploadRequest{EnvironmentId: id, Kind: "package", SizeBytes: 1, Sha256: sum("x")})
			return err
		},
		"register!": func(ctx context.Context) error {
			_, err := d.CreateEnvironmentVersion(ctx, &versionRequest{EnvironmentId: id, Version: "v1", Manifest: of("x", 1)})
			return err
		},
		"deprecate!": func(ctx context.Context) error {
			_, err := d.DeprecateEnvironmentVersion(ctx, &registryv1.DeprecateEnvironmentVersionRequest{EnvironmentId: id, Version: "v1"})
			return err
		},
		"delete!": func(ctx context.Context) error {
			_, err := d.DeleteEnvironment(ctx, &registryv1.DeleteEnvironmentRequest{EnvironmentId: id})
			return err
		},
	}
}

func TestEnvironmentPermissions(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	_, _, err := d.register(e, "v1", of("x", 1))
	require.NoError(t, err)
	const unknown = "env_01k00000000000000000000077"
	absent := d.calls(unknown)
	for name, call := range d.calls(e.GetId()) {
		viewer, _ := as(t, "usr_3", authn.ProjectViewer, "")
		err := call(viewer)
		require.Equal(t, strings.HasSuffix(name, "!"), fault.Is(err, fault.Forbidden), "%s: %v", name, err)
		stranger, _ := as(t, "usr_4", "", "")
		hidden := call(stranger)
		require.True(t, fault.Is(hidden, fault.Absent), "%s: %v", name, hidden)
		require.Equal(t, fault.From(absent[name](stranger)).Text(), strings.ReplaceAll(fault.From(hidden).Text(), e.GetId(), unknown), name)
		malformed := d.calls("env_1")[name](viewer)
		require.True(t, fault.Is(malformed, fault.Invalid), "%s: %v", name, malformed)
	}
}

func TestListEnvironments_pages(t *testing.T) {
	t.Parallel()
	d := open(t)
	for n := range 5 {
		d.make(fmt.Sprint("e", n))
	}
	e := d.make("versions")
	for n := range 5 {
		_, _, err := d.register(e, fmt.Sprint("v", n), of("x", 1))
		require.NoError(t, err)
	}
	lists := map[string]func(ctx context.Context, limit, offset *int32) ([]string, error){
		"environments": func(ctx context.Context, limit, offset *int32) (out []string, err error) {
			got, err := d.ListEnvironments(ctx, &registryv1.ListEnvironmentsRequest{Limit: limit, Offset: offset})
			for _, row := range got.GetEnvironments() {
				out = append(out, row.GetName())
			}
			return out, err
		},
		"versions": func(ctx context.Context, limit, offset *int32) (out []string, err error) {
			got, err := d.ListEnvironmentVersions(ctx, &registryv1.ListEnvironmentVersionsRequest{EnvironmentId: e.GetId(), Limit: limit, Offset: offset})
			for _, row := range got.GetVersions() {
				out = append(out, row.GetVersion())
			}
			return out, err
		},
	}
	wants := map[string][]string{"environments": {"versions", "e4", "e3", "e2", "e1", "e0"}, "versions": {"v4", "v3", "v2", "v1", "v0"}}
	for name, read := range lists {
		ctx, h := as(t, "usr_1", authn.ProjectViewer, "")
		got, err := read(ctx, nil, nil)
		require.NoError(t, err)
		require.Equal(t, wants[name], got, "newest first, also if created at the same time")
		got, err = read(ctx, new(int32(2)), new(int32(1)))
		require.NoError(t, err)
		require.Equal(t, wants[name][1:3], got)
		require.Equal(t, []string{"true"}, h.sent.Get("x-service-more"))
		for _, bad := range [][2]int32{{0, 0}, {501, 0}, {1, -1}, {1, 100_001}} {
			_, err := read(ctx, &bad[0], &bad[1])
			require.True(t, fault.Is(err, fault.Invalid), "%s %v: %v", name, bad, err)
		}
	}
}

func TestSignEnvironmentUpload_sizeLimit(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
	sign := func(kind string, size int64) error {
		_, err := d.SignEnvironmentUpload(ctx, &registryv1.SignEnvironmentUploadRequest{EnvironmentId: e.GetId(), Kind: kind, SizeBytes: size, Sha256: sum("x")})
		return err
	}
	for _, kind := range []string{environment.UploadPackage, environment.UploadTaskset} {
		require.NoError(t, sign(kind, limit))
		require.True(t, fault.Is(sign(kind, limit+1), fault.TooLarge), kind)
	}
	d.MaxBytes = 2 * environment.MaxTaskset
	require.True(t, fault.Is(sign(environment.UploadTaskset, environment.MaxTaskset+1), fault.TooLarge), "tasksets have a limit of their own, because validation reads all of them")
}

// endless is a reader of one line of the given length. After the line, it returns an error.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, errors.New("read past the limit")
	}
	for i := range p {
		p[i] = 'x'
	}
	e.left -= len(p)
	return len(p), nil
}

func TestTaskset_count_stopsAtLineLimit(t *testing.T) {
	t.Parallel()
	wrong, err := environment.Count(environment.Taskset{Count: 1}, &endless{left: 64 << 20})
	require.NoError(t, err)
	require.Equal(t, "line 1 of the taskset is longer than 8 MiB", wrong)
	_, err = environment.Count(environment.Taskset{Count: 1}, io.MultiReader(strings.NewReader("{}\n"), &endless{}))
	require.Error(t, err, "a read error is returned as an error")
	wrong, err = environment.Count(environment.Taskset{Count: 2}, bufio.NewReader(strings.NewReader("\n {} \r\n\n{}")))
	require.NoError(t, err)
	require.Empty(t, wrong, "empty lines are skipped, and the last line needs no newline")
	wrong, err = environment.Count(environment.Taskset{Count: 1}, strings.NewReader("\ufeff{}\n"))
	require.NoError(t, err)
	require.Empty(t, wrong, "a byte order mark is not a part of the first line")
}
