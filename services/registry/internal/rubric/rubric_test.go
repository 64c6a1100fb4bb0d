package rubric_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
	"github.com/signalbox-dev/signalbox/services/registry/internal/rubric"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	return &access.Project{ID: "prj_" + key, Key: key, Visibility: "team"}, nil
}

type harness struct {
	*rubric.Server

	t *testing.T
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	clk := clock.NewFake(fixtures.Now())
	ids := id.NewSource(clk, rand.Reader)
	return &harness{t: t, Server: &rubric.Server{
		Pool: pool, Projects: projects{}, Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(clk)}, Events: event.NewLog(clk, ids, "registry"),
		Audit: audit.NewLog(clk, ids, "registry"), Clock: clk, IDs: ids,
	}}
}

type headers struct {
	grpc.ServerTransportStream

	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

// as returns the context of a call by the given user, who has the given role in project team, and the headers that the
// call sets. If key is not empty, it becomes the idempotency key.
func as(t *testing.T, subject, role, key string) (context.Context, *headers) {
	t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: authn.RoleOperator}
	if role != "" {
		c.Projects = []authn.ProjectRole{{Project: "prj_team", Role: role}}
	}
	h := &headers{}
	ctx := grpc.NewContextWithServerTransportStream(authn.WithNeed(authn.NewContext(t.Context(), c), authn.NeedEdit), h)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx, h
}

func (d *harness) make(name string) *registryv1.Rubric {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", authn.ProjectEditor, "")
	r, err := d.CreateRubric(ctx, &registryv1.CreateRubricRequest{Name: name, Project: "team", Description: "words"})
	require.NoError(d.t, err)
	return r
}

// content returns valid content to which the given functions are applied.
func content(change ...func(*registryv1.RubricContent)) *registryv1.RubricContent {
	c := &registryv1.RubricContent{
		Instructions: "Be fair <and> short.", PassAt: new(0.5), Aggregation: "weighted_mean",
		Criteria: []*registryv1.RubricCriterion{
			{
				Key: "clear", Title: "Clear", Weight: 2, Kind: "judge_scale", EvidenceRequired: true,
				Scale: &registryv1.RubricScale{Min: 1, Max: 5, Anchors: []*registryv1.RubricAnchor{{Value: 1, Description: "muddy"}, {Value: 5, Description: "plain"}}},
			},
			{Key: "right", Weight: 1, Kind: "regex", Veto: true, PassAt: new(1.0), Config: []byte(`{"pattern":"^4"}`)},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func (d *harness) draft(r *registryv1.Rubric, c *registryv1.RubricContent, key string) (*registryv1.RubricVersion, string, error) {
	d.t.Helper()
	ctx, h := as(d.t, "usr_1", authn.ProjectEditor, key)
	v, err := d.CreateRubricVersion(ctx, &registryv1.CreateRubricVersionRequest{RubricId: r.GetId(), Content: c})
	return v, strings.Join(h.sent.Get("x-service-status"), ","), err
}

func (d *harness) publish(r *registryv1.Rubric, n int32) *registryv1.RubricVersion {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", authn.ProjectEditor, "")
	v, err := d.PublishRubricVersion(ctx, &registryv1.PublishRubricVersionRequest{RubricId: r.GetId(), Version: n})
	require.NoError(d.t, err)
	return v
}

func (d *harness) count(from string) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.Pool.QueryRow(d.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}

func TestCreateRubricVersion_sameContentReturnsExisting(t *testing.T) {
	t.Parallel()
	d := open(t)
	r := d.make("fair")
	v, status, err := d.draft(r, content(), "")
	require.NoError(t, err)
	require.Equal(t, []any{"", int32(1), "draft", "rub/team/fair@1"}, []any{status, v.GetVersion(), v.GetStatus(), v.GetRef()})
	require.True(t, proto.Equal(content(), v.GetContent()), "%v", v.GetContent())
	ctx, _ := as(t, "usr_1", authn.ProjectViewer, "")
	got, err := d.GetRubricVersion(ctx, &registryv1.GetRubricVersionRequest{RubricId: r.GetId(), Version: 1})
	require.NoError(t, err)
	require.True(t, proto.Equal(v, got), "%v\n%v", v, got)
	again, status, err := d.draft(r, content(func(c *registryv1.RubricContent) { c.Aggregation = "" }), "")
	require.NoError(t, err, "content with an explicit default value equals content without the value")
	require.Equal(t, []any{"200", v.GetId()}, []any{status, again.GetId()})
	next, status, err := d.draft(r, content(func(c *registryv1.RubricContent) { c.Criteria[0].Weight = 3 }), "k")
	require.NoError(t, err)
	require.Equal(t, []any{"", int32(2)}, []any{status, next.GetVersion()})
	require.NotEqual(t, v.GetDigest(), next.GetDigest())
	_, status, err = d.draft(r, content(func(c *registryv1.RubricContent) { c.Criteria[0].Weight = 3 }), "k")
	require.NoError(t, err)
	require.Empty(t, status, "a repeat with the same key gets the first response")
	require.Equal(t, 2, d.count(`audit WHERE action = 'rubric.version.create'`))
}

func TestRubricVersion_digestMatchesAPIContent(t *testing.T) {
	t.Parallel()
	d := open(t)
	v, _, err := d.draft(d.make("fair"), content(), "")
	require.NoError(t, err)
	// Add by hand what protojson does not write this way: raw JSON, and null for members that are not set.
	shown, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(v.GetContent())
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(shown, &doc))
	criteria := doc["criteria"].([]any)
	first, second := criteria[0].(map[string]any), criteria[1].(map[string]any)
	first["pass_at"], first["config"] = nil, nil
	second["config"] = map[string]any{"pattern": "^4"}
	raw, err := json.Marshal(doc)
	require.NoError(t, err)
	want, err := canon.Digest(raw)
	require.NoError(t, err)
	require.Equal(t, want, v.GetDigest())
}

func TestPublishRubricVersion(t *testing.T) {
	t.Parallel()
	d := open(t)
	r := d.make("fair")
	for n := range 3 {
		_, _, err := d.draft(r, content(func(c *registryv1.RubricContent) { c.PassAt = new(float64(n)) }), "")
		require.NoError(t, err)
	}
	second := d.publish(r, 2)
	require.Equal(t, "published", second.GetStatus())
	require.True(t, proto.Equal(second, d.publish(r, 2)), "a repeated call changes nothing")
	d.publish(r, 1)
	ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
	got, err := d.GetRubric(ctx, &registryv1.GetRubricRequest{RubricId: r.GetId()})
	require.NoError(t, err)
	require.EqualValues(t, 2, got.GetCurrentVersion(), "the highest published version is current")
	require.Equal(t, 2, d.count(`audit WHERE action = 'rubric.version.publish'`))
	_, err = d.PublishRubricVersion(ctx, &registryv1.PublishRubricVersionRequest{RubricId: r.GetId(), Version: 9})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)

	resolve := func(scope authn.Scope, text string) string {
		at, ok := ref.Parse(ref.Rubric, text)
		require.True(t, ok)
		_, v, err := d.Store.Resolve(t.Context(), d.Pool, scope, at)
		require.NoError(t, err)
		if v == nil {
			return ""
		}
		return fmt.Sprint(v.Number)
	}
	all := access.ServiceScope()
	for text, want := range map[string]string{
		"rub/team/fair@1": "1", "rub/team/fair@2": "2", "rub/team/fair@latest": "2", "rub/team/fair@3": "", "rub/team/fair@9": "",
		"rub/team/fair@01": "", "rub/team/fair@x": "", "rub/team/none@1": "", "rub/other/fair@1": "",
	} {
		require.Equal(t, want, resolve(all, text), text)
		require.Empty(t, resolve(authn.Scope{UserID: "usr_9", Projects: []string{}}, text), "a hidden rubric looks absent")
	}
}

func TestCreateRubricVersion_rejectsInvalidContent(t *testing.T) {
	t.Parallel()
	d := open(t)
	r := d.make("fair")
	for name, change := range map[string]func(*registryv1.RubricContent){
		"duplicate key":        func(c *registryv1.RubricContent) { c.Criteria[1].Key = "clear" },
		"no weight":            func(c *registryv1.RubricContent) { c.Criteria[0].Weight, c.Criteria[1].Weight = 0, 0 },
		"scale missing":        func(c *registryv1.RubricContent) { c.Criteria[0].Scale = nil },
		"scale not allowed":    func(c *registryv1.RubricContent) { c.Criteria[1].Scale = &registryv1.RubricScale{Max: 1} },
		"empty scale":          func(c *registryv1.RubricContent) { c.Criteria[0].Scale.Max = 1 },
		"anchor outside scale": func(c *registryv1.RubricContent) { c.Criteria[0].Scale.Anchors[0].Value = 0 },
		"integer not exact":    func(c *registryv1.RubricContent) { c.Criteria[1].Config = []byte(`{"n":9007199254740993}`) },
	} {
		_, _, err := d.draft(r, content(change), "")
		require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "rubric"), "%s: %v", name, err)
	}
	require.Zero(t, d.count(`rubric_version`))
}

func TestCreateRubricVersion_concurrentDrafts(t *testing.T) {
	t.Parallel()
	d := open(t)
	r := d.make("fair")
	const n = 9
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
		c := content(func(c *registryv1.RubricContent) { c.PassAt = new(float64(i % 3)) })
		wg.Go(func() {
			_, errs[i] = d.CreateRubricVersion(ctx, &registryv1.CreateRubricVersionRequest{RubricId: r.GetId(), Content: c})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, []int{3, 3}, []int{d.count(`rubric_version`), d.count(`rubric_version WHERE version <= 3`)})
}

func TestRubricPermissions(t *testing.T) {
	t.Parallel()
	d := open(t)
	r := d.make("fair")
	_, _, err := d.draft(r, content(), "")
	require.NoError(t, err)
	calls := map[string]func(ctx context.Context, id string) error{
		"get": func(ctx context.Context, id string) error {
			_, err := d.GetRubric(ctx, &registryv1.GetRubricRequest{RubricId: id})
			return err
		},
		"versions": func(ctx context.Context, id string) error {
			_, err := d.ListRubricVersions(ctx, &registryv1.ListRubricVersionsRequest{RubricId: id})
			return err
		},
		"version": func(ctx context.Context, id string) error {
			_, err := d.GetRubricVersion(ctx, &registryv1.GetRubricVersionRequest{RubricId: id, Version: 1})
			return err
		},
		"draft!": func(ctx context.Context, id string) error {
			_, err := d.CreateRubricVersion(ctx, &registryv1.CreateRubricVersionRequest{RubricId: id, Content: content()})
			return err
		},
		"publish!": func(ctx context.Context, id string) error {
			_, err := d.PublishRubricVersion(ctx, &registryv1.PublishRubricVersionRequest{RubricId: id, Version: 1})
			return err
		},
	}
	const unknown = "rub_01k00000000000000000000077"
	for name, call := range calls {
		viewer, _ := as(t, "usr_3", authn.ProjectViewer, "")
		stranger, _ := as(t, "usr_4", "", "")
		require.Equal(t, strings.HasSuffix(name, "!"), fault.Is(call(viewer, r.GetId()), fault.Forbidden), name)
		hidden, absent := call(stranger, r.GetId()), call(stranger, unknown)
		require.True(t, fault.Is(hidden, fault.Absent), "%s: %v", name, hidden)
		require.Equal(t, fault.From(absent).Text(), strings.ReplaceAll(fault.From(hidden).Text(), r.GetId(), unknown))
		require.True(t, fault.Is(call(viewer, "rub_1"), fault.Invalid))
	}
	ctx, _ := as(t, "usr_4", "", "")
	list, err := d.ListRubrics(ctx, &registryv1.ListRubricsRequest{})
	require.NoError(t, err)
	require.Empty(t, list.GetRubrics())
}

func TestListRubrics_pages(t *testing.T) {
	t.Parallel()
	d := open(t)
	for n := range 4 {
		d.make(fmt.Sprint("r", n))
	}
	ctx, h := as(t, "usr_1", authn.ProjectViewer, "")
	got, err := d.ListRubrics(ctx, &registryv1.ListRubricsRequest{Limit: new(int32(2)), Offset: new(int32(1))})
	require.NoError(t, err)
	require.Equal(t, []string{"r2", "r1"}, []string{got.GetRubrics()[0].GetName(), got.GetRubrics()[1].GetName()})
	require.Equal(t, []string{"true"}, h.sent.Get("x-service-more"))
	got, err = d.ListRubrics(ctx, &registryv1.ListRubricsRequest{Name: new("r3")})
	require.NoError(t, err)
	require.Len(t, got.GetRubrics(), 1)
	editor, _ := as(t, "usr_1", authn.ProjectEditor, "")
	_, err = d.CreateRubric(editor, &registryv1.CreateRubricRequest{Name: "r1", Project: "team"})
	require.True(t, fault.HasCode(err, "rubric_exists") && fault.Is(err, fault.Conflict), "%v", err)
	for _, bad := range [][2]int32{{0, 0}, {501, 0}, {1, -1}, {1, 100_001}} {
		_, err := d.ListRubrics(ctx, &registryv1.ListRubricsRequest{Limit: &bad[0], Offset: &bad[1]})
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	}
}
