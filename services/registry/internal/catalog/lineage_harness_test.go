package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/catalog"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// fakeRun is a run of the fake jobs service.
type fakeRun struct {
	id      string
	sources []string
	hidden  bool
}

// fakeRuns is a fake of the lineage methods of the jobs service.
type fakeRuns struct {
	jobspeerv1.RunLineagePeerServiceClient

	runs []fakeRun
	away bool
}

func (f *fakeRuns) ListLineageRuns(_ context.Context, in *jobspeerv1.ListLineageRunsRequest, _ ...grpc.CallOption) (*jobspeerv1.ListLineageRunsResponse, error) {
	out := &jobspeerv1.ListLineageRunsResponse{}
	if f.away {
		return nil, fault.New(fault.Unavailable, "away", "jobs is away")
	}
	for _, r := range f.runs {
		if r.hidden || !slices.Contains(in.GetIds(), r.id) && !slices.Contains(in.GetIds(), "job"+r.id[3:]) {
			continue
		}
		m := &jobspeerv1.LineageRun{RunId: r.id, JobId: "job" + r.id[3:], Name: "r", Project: "team", State: "succeeded", CreatedAt: timestamppb.New(fixtures.Now())}
		for _, s := range r.sources {
			m.Sources = append(m.Sources, &jobspeerv1.LineageSource{Source: s, Detail: "in"})
		}
		out.Runs = append(out.Runs, m)
	}
	return out, nil
}

func (f *fakeRuns) FindDerivedRuns(_ context.Context, in *jobspeerv1.FindDerivedRunsRequest, _ ...grpc.CallOption) (*jobspeerv1.FindDerivedRunsResponse, error) {
	out := &jobspeerv1.FindDerivedRunsResponse{}
	for _, s := range in.GetSources() {
		n := int32(0)
		for _, r := range f.runs {
			if slices.Contains(r.sources, s) && n < in.GetLimit() {
				out.Runs = append(out.Runs, &jobspeerv1.DerivedRun{Source: s, RunId: r.id, Detail: "in"})
				n++
			}
		}
	}
	return out, nil
}

// lineageHarness has a dataset, a model from a run, and a deployment, whose ids end with the number 1.
type lineageHarness struct {
	*harness

	runs   *fakeRuns
	server *catalog.LineageServer
}

func idOf(prefix string, n int) string { return fmt.Sprintf("%s_%026d", prefix, n) }

func openLineage(t *testing.T) *lineageHarness {
	t.Helper()
	d := open(t)
	h := &lineageHarness{harness: d, runs: &fakeRuns{}}
	h.server = &catalog.LineageServer{Pool: d.Pool, Runs: h.runs}
	h.exec(`INSERT INTO dataset (id, name, owner_id, owner_name, project_id, project, visibility, format, protected, description, created_at)
		SELECT 'ds_' || lpad(n::text, 26, '0'), 'd' || n, 'usr_1', 'ann', 'prj_1', 'team', 'team', 'jsonl', false, '', now() FROM generate_series(1, 2) n`)
	h.exec(`INSERT INTO dataset_version (id, dataset_id, version, state, digest, files, bytes, manifest, creator_id, created_at)
		SELECT 'dsv_' || id, id, 'v1', 'ready', 'sha256:' || name, 1, 1, '[]', 'usr_1', now() FROM dataset`)
	h.exec(`INSERT INTO model (id, name, owner_id, owner_name, project_id, project, visibility, task, description, created_at)
		SELECT 'mdl_' || lpad(n::text, 26, '0'), 'm' || n, 'usr_1', 'ann', 'prj_1', 'team', 'team', 'chat', '', now() FROM generate_series(1, 2) n`)
	h.exec(`INSERT INTO model_version (id, model_id, version, status, lifecycle, run_id, artifact_id, format, digest, size_bytes, uri, file, packed, facts, created_at)
		SELECT 'mv_' || id, id, 1, 'ready', 'candidate', $1, 'art_1', 'gguf', 'sha256:' || name, 1, 'blob://x', 'f', false, '{}', now() FROM model WHERE name = 'm1'`, idOf("run", 1))
	h.exec(`INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, description, created_at)
		VALUES ($1, 'chat', 'usr_1', 'ann', 'prj_1', 'team', 'team', 'serving', '', now())`, idOf("dep", 1))
	h.exec(`INSERT INTO revision (id, deployment_id, number, state, model_id, model_version, serving, serving_digest, plan, work_id, desired, created_at)
		VALUES ('rev_1', $1, 1, 'ready', $2, 1, '{}', '', '{}', 'w', 'running', now())`, idOf("dep", 1), idOf("mdl", 1))
	return h
}

func (h *lineageHarness) exec(sql string, args ...any) {
	h.t.Helper()
	_, err := h.Pool.Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

func reader(ctx context.Context, subject string, in ...authn.ProjectRole) context.Context {
	return authn.WithNeed(authn.NewContext(ctx, &authn.Caller{Kind: authn.KindUser, Subject: subject, Role: authn.RoleOperator, Projects: in}), authn.NeedRead)
}

// text returns the nodes and edges of a lineage as short words: kind:name@version, with ? for hidden and + for more.
func text(l *registryv1.Lineage) (nodes, edges string) {
	short := map[string]string{}
	for _, n := range l.GetNodes() {
		word := n.GetKind()[:1] + ":" + strings.TrimLeft(n.GetId()[strings.Index(n.GetId(), "_")+1:], "0")
		if !n.GetVisible() {
			word = n.GetKind()[:1] + "?"
		}
		if n.GetMore() {
			word += "+"
		}
		short[n.GetKey()] = strings.TrimSuffix(word, "+")
		nodes += fmt.Sprintf(" %s(%d)", word, n.GetDistance())
	}
	for _, e := range l.GetEdges() {
		edges += fmt.Sprintf(" %s>%s", short[e.GetSource()], short[e.GetTarget()])
	}
	return nodes, edges
}
