package registry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// reads returns the encoded responses of the read methods, by method. A restart must not change these responses.
func (h *harness) reads(d *registryv1.Deployment, ds *registryv1.Dataset, m string) map[string][]byte {
	h.t.Helper()
	out := map[string][]byte{}
	ctx := h.as(ann())
	keep := func(name string, msg proto.Message, err error) {
		require.NoError(h.t, err, name)
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
		require.NoError(h.t, err)
		require.NotEmpty(h.t, raw, name)
		out[name] = raw
	}
	recipes, err := h.recipes.ListRecipes(ctx, &registryv1.ListRecipesRequest{})
	keep("recipes", recipes, err)
	newest := recipes.GetRecipes()[len(recipes.GetRecipes())-1]
	namespace, name, _ := strings.Cut(newest.GetName(), "/")
	lock, err := h.recipes.GetRecipeLock(ctx, &registryv1.GetRecipeLockRequest{Namespace: namespace, Name: name, Version: newest.GetVersion()})
	keep("lock", lock, err)
	datasets, err := h.datasets.ListDatasets(ctx, &registryv1.ListDatasetsRequest{})
	keep("datasets", datasets, err)
	version, err := h.datasets.GetDatasetVersion(ctx, &registryv1.GetDatasetVersionRequest{DatasetId: ds.GetId(), Version: "v1"})
	keep("dataset version", version, err)
	models, err := h.models.ListModels(ctx, &registryv1.ListModelsRequest{})
	keep("models", models, err)
	mv, err := h.models.GetModelVersion(ctx, &registryv1.GetModelVersionRequest{ModelId: m, Version: 1})
	keep("model version", mv, err)
	dep, err := h.deployments.GetDeployment(ctx, &registryv1.GetDeploymentRequest{DeploymentId: d.GetId()})
	keep("deployment", dep, err)
	rev, err := h.deployments.GetRevision(ctx, &registryv1.GetRevisionRequest{DeploymentId: d.GetId(), Number: 1})
	if err == nil {
		rev.Replicas, rev.ReadyAt = nil, nil
	}
	keep("revision", rev, err)
	tokens, err := h.deployments.ListDeploymentTokens(ctx, &registryv1.ListDeploymentTokensRequest{DeploymentId: d.GetId()})
	keep("tokens", tokens, err)
	return out
}

func TestReads_unchangedAfterRestart(t *testing.T) {
	t.Parallel()
	h := build(t)
	stop := h.start(h.bus)
	h.connect(h.bus)
	ds := h.dataset(ann(), "sums", "")
	h.push(ann(), ds, "v1", []byte("{}\n"))
	d := h.deployment(ann(), "adder")
	r := h.candidate(ann(), d)
	o := h.ready(r)
	_, err := h.promote(r)
	require.NoError(t, err)
	h.token(d, "ci")
	before := h.reads(d, ds, r.GetSource().GetModelId())
	stop()

	h.start(h.bus)
	h.connect(h.bus)
	// The engine restarted too: it stopped, and then became ready at another address with other probe results.
	h.reports(o, 2, &jobsv1.EngineReport{Phase: "starting"})
	h.becomes(r, "not_ready")
	back := readyReport()
	back.Address, back.Pid, back.Probes = "http://127.0.0.1:4999", 99, []byte(`{"generate": 3}`)
	h.reports(o, 2, back)
	h.becomes(r, "ready")
	require.Equal(t, before, h.reads(d, ds, r.GetSource().GetModelId()))
}

func TestOrders_repeatedUntilJobsAccepts(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.works.refuse = fault.New(fault.Unavailable, "away", "jobs is away")
	stop := h.start(h.bus)
	h.connect(h.bus)
	d := h.deployment(ann(), "adder")
	r := h.candidate(ann(), d)
	stop()
	h.works.mu.Lock()
	h.works.refuse = nil
	h.works.mu.Unlock()
	stop = h.start(h.bus)
	h.connect(h.bus)
	o := h.ready(r)
	stop()
	// The registry repeats an order that the jobs service lost and ends a work that no revision ordered.
	h.works.forget(o.GetWorkId())
	stray := h.ids.New(id.Work)
	h.works.reported(stray)
	h.start(h.bus)
	h.connect(h.bus)
	require.Equal(t, o.GetWorkId(), h.ordered(r).GetWorkId())
	eventually(t, func() bool { return h.works.of(stray).GetDesired() == jobsv1.Desired_DESIRED_GONE }, "the stray work is ended")
}

func TestRegistryPeerMethods_rejectOtherServices(t *testing.T) {
	t.Parallel()
	h := open(t)
	conn, err := h.bus.As("ingest").Dial("registry")
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = registrypeerv1.NewCatalogPeerServiceClient(conn).GetCatalogRecipe(t.Context(), &registrypeerv1.GetCatalogRecipeRequest{Name: "a/b"})
	refused(t, err, fault.Forbidden, "")
	stream, err := registrypeerv1.NewSnapshotServiceClient(conn).Watch(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	refused(t, err, fault.Forbidden, "")
	_, err = h.deployments.ListDeployments(context.WithoutCancel(t.Context()), &registryv1.ListDeploymentsRequest{})
	refused(t, err, fault.Unauthenticated, "")
}
