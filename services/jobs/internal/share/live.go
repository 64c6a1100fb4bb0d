package share

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// Reports reads the data that a run reported to ingest. ingestpeerv1.RunDataPeerServiceClient implements it.
type Reports interface {
	GetRunMetrics(ctx context.Context, in *ingestpeerv1.GetRunMetricsRequest, opts ...grpc.CallOption) (*ingestpeerv1.GetRunMetricsResponse, error)
	GetRunHparams(ctx context.Context, in *ingestpeerv1.GetRunHparamsRequest, opts ...grpc.CallOption) (*ingestpeerv1.GetRunHparamsResponse, error)
	GetRunSamples(ctx context.Context, in *ingestpeerv1.GetRunSamplesRequest, opts ...grpc.CallOption) (*ingestpeerv1.GetRunSamplesResponse, error)
}

// Catalog finds protected datasets. registrypeerv1.CatalogPeerServiceClient implements it.
type Catalog interface {
	FindProtected(ctx context.Context, in *registrypeerv1.FindProtectedRequest, opts ...grpc.CallOption) (*registrypeerv1.FindProtectedResponse, error)
}

// People looks up accounts and their roles. authpeerv1.AccountPeerServiceClient implements it.
type People interface {
	GetAccount(ctx context.Context, in *authpeerv1.GetAccountRequest, opts ...grpc.CallOption) (*authpeerv1.Account, error)
	ListProjectRoles(
		ctx context.Context, in *authpeerv1.ListProjectRolesRequest, opts ...grpc.CallOption,
	) (*authpeerv1.ListProjectRolesResponse, error)
}

// Live reads the current state of runs.
type Live struct {
	Reports Reports
	Catalog Catalog
	People  People
}

// Allowed reports whether the owner of a link may still change the runs, which was required to share them.
func (l *Live) Allowed(ctx context.Context, ownerID string, runs []*run.Run) (bool, error) {
	a, err := l.People.GetAccount(ctx, &authpeerv1.GetAccountRequest{Account: ownerID})
	if fault.Is(err, fault.Absent) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the owner of a link: %w", err)
	}
	if a.GetDisabled() {
		return false, nil
	}
	others := slices.ContainsFunc(runs, func(r *run.Run) bool { return r.OwnerID != ownerID })
	if !others || a.GetRole() == authn.RoleAdmin {
		return true, nil
	}
	roles, err := l.People.ListProjectRoles(ctx, &authpeerv1.ListProjectRolesRequest{AccountId: ownerID})
	if err != nil {
		return false, fmt.Errorf("look up the roles of the owner of a link: %w", err)
	}
	edits := map[string]bool{}
	for _, r := range roles.GetRoles() {
		edits[r.GetProjectId()] = r.GetRole() == authn.ProjectEditor || r.GetRole() == authn.ProjectOwner
	}
	return !slices.ContainsFunc(runs, func(r *run.Run) bool { return r.OwnerID != ownerID && !edits[r.ProjectID] }), nil
}

// Protected reports whether nothing of a run may be shared: it is protected, or bound to a dataset that has become
// protected since then or no longer exists.
func (l *Live) Protected(ctx context.Context, r *run.Run) (bool, error) {
	if r.Protected {
		return true, nil
	}
	var bound struct {
		Datasets map[string]string `json:"datasets"`
	}
	if err := json.Unmarshal(r.Bindings, &bound); err != nil {
		return false, fmt.Errorf("read the bindings of run %s: %w", r.ID, err)
	}
	if len(bound.Datasets) == 0 {
		return false, nil
	}
	refs := slices.Sorted(maps.Values(bound.Datasets))
	found, err := l.Catalog.FindProtected(ctx, &registrypeerv1.FindProtectedRequest{Refs: refs})
	if err != nil {
		return false, fmt.Errorf("look up the datasets of run %s: %w", r.ID, err)
	}
	return len(found.GetRefs()) > 0, nil
}

// Metrics returns a page of a run's series.
func (l *Live) Metrics(ctx context.Context, r *run.Run, keys []string, p request.Page) ([]*jobsv1.SharedSeries, bool, error) {
	got, err := l.Reports.GetRunMetrics(ctx, &ingestpeerv1.GetRunMetricsRequest{
		RunId: r.ID, Keys: keys, Limit: int32(p.Limit), Offset: int32(p.Offset),
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the metrics of run %s: %w", r.ID, err)
	}
	return seriesFromReports(got.GetSeries()), got.GetMore(), nil
}

// Config returns a run's recipe and hyperparameters.
func (l *Live) Config(ctx context.Context, r *run.Run) (*jobsv1.SharedConfig, error) {
	got, err := l.Reports.GetRunHparams(ctx, &ingestpeerv1.GetRunHparamsRequest{RunId: r.ID})
	if err != nil {
		return nil, fmt.Errorf("read the hyperparameters of run %s: %w", r.ID, err)
	}
	name, version, err := recipeOf(r)
	if err != nil {
		return nil, err
	}
	return &jobsv1.SharedConfig{Recipe: name, RecipeVersion: version, Hparams: got.GetParams()}, nil
}

// Samples returns a page of the samples of one round, the last round if the query has neither a step nor a sample.
func (l *Live) Samples(ctx context.Context, r *run.Run, q *SampleQuery) (*SamplePage, error) {
	got, err := l.Reports.GetRunSamples(ctx, &ingestpeerv1.GetRunSamplesRequest{
		RunId: r.ID, Step: q.Step, Limit: int32(q.Page.Limit), Offset: int32(q.Page.Offset), After: q.After, Sample: q.Only, TextFrom: q.TextFrom,
	})
	if err != nil {
		return nil, fmt.Errorf("read the samples of run %s: %w", r.ID, err)
	}
	if !got.GetPositions() && (q.After != nil || q.Only != nil || q.TextFrom > 0) {
		return nil, fault.New(fault.Unavailable, "", "the samples cannot be read from a position while the server is upgraded; try again later")
	}
	return &SamplePage{Samples: samplesFromReports(got.GetSamples()), More: got.GetMore(), Positions: got.GetPositions()}, nil
}
