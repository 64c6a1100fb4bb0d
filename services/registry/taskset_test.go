package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const plantedTask = "planted-task-7f3a"

// logBuffer collects log output.
type logBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (e *logBuffer) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all.Write(p)
}

// transcript collects every response of a harness, including errors.
type transcript struct {
	t   *testing.T
	out strings.Builder
}

func (s *transcript) add(m proto.Message, err error) {
	s.t.Helper()
	if err != nil {
		fmt.Fprintln(&s.out, fault.From(err).Text(), err)
		return
	}
	fmt.Fprintln(&s.out, m)
}

// send sends a signed request with any method and returns the response status and body.
func send(t *testing.T, method, url string, headers map[string]string, data []byte) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(data))
	require.NoError(t, err)
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, body.String()
}

// TestTaskset_neverDisclosed plants a text in valid and invalid tasksets. The text must not appear in any response,
// error, log line or row, nor at any signed URL.
func TestTaskset_neverDisclosed(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	h := open(t, func(h *harness) { h.log = slog.New(slog.NewJSONHandler(log, nil)) })
	seen := &transcript{t: t}
	conn, err := h.bus.As("gateway").Dial("registry")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	environments := registryv1.NewEnvironmentServiceClient(conn)
	team := member(ann(), "editor")
	env, err := environments.CreateEnvironment(h.as(team), &registryv1.CreateEnvironmentRequest{Name: "math", Project: "search"})
	require.NoError(t, err)
	for version, tasks := range map[string]string{
		"good":   fmt.Sprintf(`{"prompt": %q, "split": "train"}`, plantedTask),
		"counts": fmt.Sprintf("{\"prompt\": %[1]q}\n{\"prompt\": %[1]q}", plantedTask), "broken": plantedTask, "split": fmt.Sprintf(`{"split": %q}`, plantedTask),
	} {
		seen.taskset(h, environments, env.GetId(), version, []byte(tasks))
	}
	seen.otherWays(h, conn, env.GetId())
	require.NotContains(t, seen.out.String(), plantedTask)
	log.mu.Lock()
	defer log.mu.Unlock()
	require.NotContains(t, log.all.String(), plantedTask)
	require.Zero(t, h.rowsWith(plantedTask))
	require.Positive(t, h.rowsWith("math"), "rowsWith must find a text that is stored")
}

// taskset uploads a taskset, registers it and waits for its validation.
func (s *transcript) taskset(h *harness, c registryv1.EnvironmentServiceClient, env, version string, tasks []byte) {
	h.t.Helper()
	ctx := h.as(member(ann(), "editor"))
	target, err := c.SignEnvironmentUpload(ctx, &registryv1.SignEnvironmentUploadRequest{
		EnvironmentId: env, Kind: "taskset", SizeBytes: int64(len(tasks)), Sha256: sum(tasks),
	})
	require.NoError(h.t, err)
	s.add(target, nil)
	status, body := send(h.t, target.GetMethod(), target.GetUrl(), target.GetHeaders(), tasks)
	require.Equal(h.t, http.StatusOK, status, body)
	fmt.Fprintln(&s.out, body)
	status, body = send(h.t, http.MethodGet, target.GetUrl(), target.GetHeaders(), nil)
	require.Equal(h.t, http.StatusForbidden, status, "an upload URL must not allow reads")
	fmt.Fprintln(&s.out, body)
	m := &registryv1.EnvironmentManifest{Api: "env/v1", Entry: "a:B", Taskset: &registryv1.EnvironmentTaskset{
		Digest: "sha256:" + sum(tasks), Count: 1, Splits: map[string]int32{"train": 1},
	}}
	in := &registryv1.CreateEnvironmentVersionRequest{EnvironmentId: env, Version: version, Manifest: m}
	s.add(c.CreateEnvironmentVersion(ctx, in))
	eventually(h.t, func() bool {
		v, err := c.GetEnvironmentVersion(ctx, &registryv1.GetEnvironmentVersionRequest{EnvironmentId: env, Version: version})
		require.NoError(h.t, err)
		s.add(v, nil)
		return v.GetState() == "ready" || v.GetState() == "invalid"
	}, "the version is validated")
	s.add(c.CreateEnvironmentVersion(ctx, in))
	s.add(c.DeprecateEnvironmentVersion(ctx, &registryv1.DeprecateEnvironmentVersionRequest{EnvironmentId: env, Version: version}))
}

// otherWays tries other ways to reach the same bytes for a caller who knows their digest.
func (s *transcript) otherWays(h *harness, conn *grpc.ClientConn, env string) {
	h.t.Helper()
	team := member(ann(), "editor")
	tasks := []byte(plantedTask)
	files := []*registryv1.ManifestFile{{Path: "a.jsonl", SizeBytes: int64(len(tasks)), Sha256: sum(tasks)}}
	mine := h.dataset(team, "taskset-as-dataset", "search")
	made, err := h.datasets.CreateDatasetVersion(h.as(team), &registryv1.CreateDatasetVersionRequest{DatasetId: mine.GetId(), Version: "v1", Files: files})
	require.NoError(h.t, err)
	require.Len(h.t, made.GetUploads(), 1, "a dataset with the same digest does not share the taskset's object")
	_, err = h.datasets.CommitDatasetVersion(h.as(team), &registryv1.CommitDatasetVersionRequest{DatasetId: mine.GetId(), Version: "v1"})
	require.True(h.t, fault.HasCode(err, "object_missing"), "%v", err)
	packages := registryv1.NewPackageServiceClient(conn)
	p, err := packages.CreatePackage(h.as(team), &registryv1.CreatePackageRequest{Project: "search", SizeBytes: int64(len(tasks)), Sha256: sum(tasks)})
	require.NoError(h.t, err)
	s.add(packages.CommitPackage(h.as(team), &registryv1.CommitPackageRequest{PackageId: p.GetId()}))
	environments := registryv1.NewEnvironmentServiceClient(conn)
	s.add(environments.ListEnvironments(h.as(admin()), &registryv1.ListEnvironmentsRequest{}))
	s.add(environments.ListEnvironmentVersions(h.as(admin()), &registryv1.ListEnvironmentVersionsRequest{EnvironmentId: env}))
	s.add(h.catalog.ResolveBindings(h.as(team), &registrypeerv1.ResolveBindingsRequest{Datasets: map[string]string{"train": "env/search/math@good"}}))
	s.add(environments.DeleteEnvironment(h.as(team), &registryv1.DeleteEnvironmentRequest{EnvironmentId: env}))
}

// rowsWith counts the rows in the whole schema that contain the given text.
func (h *harness) rowsWith(text string) (n int) {
	h.t.Helper()
	ctx := context.WithoutCancel(h.t.Context())
	pool := h.db.OwnerPool("registry")
	var tables []string
	require.NoError(h.t, pool.QueryRow(ctx, `SELECT array_agg(quote_ident(table_name)) FROM information_schema.tables
		WHERE table_schema = 'registry' AND table_type = 'BASE TABLE'`).Scan(&tables))
	require.Greater(h.t, len(tables), 15)
	for _, table := range tables {
		var found int
		require.NoError(h.t, pool.QueryRow(ctx, `SELECT count(*) FROM registry.`+table+` t WHERE t::text LIKE '%' || $1 || '%'`, text).Scan(&found))
		n += found
	}
	return n
}
