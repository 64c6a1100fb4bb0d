package model

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
)

// runs is a fake of runs with their artifacts; the keys are artifact IDs. Each run ID stands for an owner and a
// visibility.
type runs map[string]*Artifact

func (runs) Origin(_ context.Context, runID string) (Origin, error) {
	switch runID {
	case "run_ann":
		return Origin{Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Visibility: "team"}}, nil
	case "run_else":
		return Origin{Owner: access.Owner{UserID: "usr_9", ProjectID: "prj_9", Visibility: "team"}}, nil
	case "run_shown":
		return Origin{Owner: access.Owner{UserID: "usr_9", ProjectID: "prj_9", Visibility: "all"}}, nil
	}
	return Origin{}, fault.Absentf("run", runID)
}

func (r runs) Artifact(_ context.Context, runID, artifactID string) (*Artifact, error) {
	if a := r[artifactID]; a != nil && a.RunID == runID {
		return a, nil
	}
	return nil, fault.Absentf("artifact", artifactID)
}

func (runs) StartedFrom(_ context.Context, runID string) (string, error) {
	return map[string]string{"run_ann": "mdl/team/base@3"}[runID], nil
}

type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	return &access.Project{ID: "prj_1", Key: key, Visibility: "team"}, nil
}

// serverHarness is a server with its object store and a fake of the runs.
type serverHarness struct {
	*harness
	*Server

	blobs *objectstore.FileStore
	runs  runs
}

func newServerHarness(t *testing.T) *serverHarness {
	t.Helper()
	b := open(t)
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	blobs, err := objectstore.OpenFiles(objectstore.FileConfig{
		Root: t.TempDir(), Limit: 1 << 20, PublicURL: func() string { return "" }, Clock: clk, IDs: ids, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, blobs.Close()) })
	d := &serverHarness{harness: b, blobs: blobs, runs: runs{}}
	d.Server = &Server{
		Pool: b.pool, Projects: projects{}, Artifacts: d.runs, Blobs: blobs, Once: &idempotency.Once{Pool: b.pool, Keys: idempotency.New(clk)}, Clock: clk, IDs: ids,
		Events: event.NewLog(clk, ids, "registry"), Audit: audit.NewLog(clk, ids, "registry"),
		MaxBytes: 1 << 20, HoldFor: time.Hour,
	}
	return d
}

// headers records the response headers of a call.
type headers struct {
	grpc.ServerTransportStream

	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

// as returns the context of a caller's request with a role in the team's project and an idempotency key.
func as(t *testing.T, subject, role, key string) (context.Context, *headers) {
	t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: authn.RoleOperator}
	if role != "" {
		c.Projects = []authn.ProjectRole{{Project: "prj_1", Role: role}}
	}
	h := &headers{}
	ctx := grpc.NewContextWithServerTransportStream(authn.WithNeed(authn.NewContext(t.Context(), c), authn.NeedEdit), h)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx, h
}

func ann(t *testing.T) context.Context {
	t.Helper()
	ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
	return ctx
}

// artifact stores data as an artifact of run_ann.
func (d *serverHarness) artifact(artifactID, format string, data []byte) *Artifact {
	d.t.Helper()
	s := sha256.Sum256(data)
	sum := hex.EncodeToString(s[:])
	key := "runs/ann/" + artifactID
	require.NoError(d.t, d.blobs.Put(d.t.Context(), key, bytes.NewReader(data), int64(len(data)), sum))
	a := &Artifact{
		ID: artifactID, RunID: "run_ann", Kind: "merged_model", Format: format, Path: "out/model." + format, Size: int64(len(data)), SHA256: sum,
		URI: blob.URI(key),
	}
	d.runs[artifactID] = a
	return a
}

// weights returns a safetensors file with n bytes of weights.
func weights(n int) []byte {
	text := []byte(`{"a":{"dtype":"U8","shape":[` + strconv.Itoa(n) + `],"data_offsets":[0,` + strconv.Itoa(n) + `]}}`)
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), make([]byte, n)...)
}

// model creates a model in the team's project. The user ann owns the model.
func (d *serverHarness) model(name string) *registryv1.Model {
	d.t.Helper()
	m, err := d.CreateModel(ann(d.t), &registryv1.CreateModelRequest{Name: name, Project: "team"})
	require.NoError(d.t, err)
	return m
}

// register creates a version from an artifact of run_ann.
func (d *serverHarness) register(ctx context.Context, m *registryv1.Model, artifactID string) (*registryv1.ModelVersion, error) {
	return d.CreateModelVersion(ctx, &registryv1.CreateModelVersionRequest{
		ModelId: m.GetId(), Source: &registryv1.ModelSource{RunId: "run_ann", ArtifactId: artifactID},
	})
}

// Get returns the error of an unreachable object store.
func (unavailableStore) Get(context.Context, string) (io.ReadCloser, blob.Info, error) {
	return nil, blob.Info{}, fault.New(fault.Dependency, blob.CodeStore, "the object store is unavailable")
}

// jobs maps a model reference to the unfinished jobs that use it.
type jobs map[string][]string

func (j jobs) UsersOf(_ context.Context, ref string) ([]string, error) { return j[ref], nil }

// modelHarness is a serverHarness with a model that has some versions.
type modelHarness struct {
	*serverHarness

	jobs jobs
	m    *registryv1.Model
}

func newModelHarness(t *testing.T, versions int) *modelHarness {
	t.Helper()
	d := newServerHarness(t)
	s := &modelHarness{serverHarness: d, jobs: jobs{}, m: d.model("m")}
	d.Jobs = s.jobs
	for n := range versions {
		d.artifact(string(rune('a'+n)), FormatSafetensors, weights(n+1))
		_, err := d.register(ann(t), s.m, string(rune('a'+n)))
		require.NoError(t, err)
	}
	return s
}

func (s *modelHarness) promote(number int32, archive bool) (*registryv1.ModelVersion, error) {
	return s.PromoteModelVersion(ann(s.t), &registryv1.PromoteModelVersionRequest{
		ModelId: s.m.GetId(), Version: number, Note: "it is better", ArchivePrevious: archive,
	})
}

func (s *modelHarness) archive(number int32) (*registryv1.ModelVersion, error) {
	return s.ArchiveModelVersion(ann(s.t), &registryv1.ArchiveModelVersionRequest{ModelId: s.m.GetId(), Version: number})
}

func (s *modelHarness) alias(name string, number int32) (*registryv1.Model, error) {
	return s.SetModelAlias(ann(s.t), &registryv1.SetModelAliasRequest{ModelId: s.m.GetId(), Alias: name, Version: number})
}

func (s *modelHarness) now() *registryv1.Model {
	s.t.Helper()
	m, err := s.GetModel(ann(s.t), &registryv1.GetModelRequest{ModelId: s.m.GetId()})
	require.NoError(s.t, err)
	return m
}

// lifecycles returns the lifecycles of the versions, oldest first.
func (s *modelHarness) lifecycles() string {
	s.t.Helper()
	found, err := s.ListModelVersions(ann(s.t), &registryv1.ListModelVersionsRequest{ModelId: s.m.GetId()})
	require.NoError(s.t, err)
	var all []string
	for _, v := range found.GetVersions() {
		all = append([]string{v.GetLifecycle()}, all...)
	}
	return strings.Join(all, " ")
}

// history returns the history entries, newest first.
func (s *modelHarness) history(at *time.Time) (all []string) {
	s.t.Helper()
	in := &registryv1.ListModelHistoryRequest{ModelId: s.m.GetId()}
	if at != nil {
		in.At = timestamppb.New(*at)
	}
	found, err := s.ListModelHistory(ann(s.t), in)
	require.NoError(s.t, err)
	for _, c := range found.GetEntries() {
		words := []string{c.GetAction(), fmt.Sprint(c.GetVersion())}
		if c.PreviousVersion != nil {
			words = append(words, "was", fmt.Sprint(c.GetPreviousVersion()))
		}
		if c.Alias != nil {
			words = append(words, c.GetAlias())
		}
		require.Equal(s.t, "usr_1", c.GetActor())
		all = append(all, strings.Join(words, " "))
	}
	return all
}

// revision inserts a revision row that serves a version.
func (s *modelHarness) revision(holder, id string, number int32, desired string) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), `INSERT INTO revision (id, deployment_id, number, state, model_id, model_version, serving, serving_digest,
		plan, work_id, desired, created_at) VALUES ($1, $2, $3, 'pending', $4, $5, '{}', '', '{}', $1, $6, now())`,
		id, holder, len(id), s.m.GetId(), number, desired)
	require.NoError(s.t, err)
}

func (s *modelHarness) deployment(id, name string) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), `INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, created_at)
		VALUES ($1, $2, 'usr_1', 'ann', 'prj_1', 'team', 'team', 'serving', now())`, id, name)
	require.NoError(s.t, err)
}
