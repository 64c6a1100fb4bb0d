package jobs_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

type fakeProjects struct{}

func (fakeProjects) GetProject(
	_ context.Context, req *authpeerv1.GetProjectRequest, _ ...grpc.CallOption,
) (*authpeerv1.Project, error) {
	switch req.GetProject() {
	case "default":
		return &authpeerv1.Project{Id: "prj_default", Key: "default", Visibility: "all"}, nil
	case "search":
		return &authpeerv1.Project{Id: "prj_search", Key: "search", Visibility: "team"}, nil
	case "crew":
		return &authpeerv1.Project{Id: "prj_crew", Key: "crew", Visibility: "team", TeamId: "team_crew"}, nil
	case "old":
		return &authpeerv1.Project{Id: "prj_old", Key: "old", Visibility: "team", Archived: true}, nil
	}
	return nil, fault.Absentf("project", req.GetProject())
}

// fakeAccounts contains the users and teams of a test. The id of ann is usr_ann, and the id of the team crew is
// team_crew.
type fakeAccounts struct {
	authpeerv1.AccountPeerServiceClient

	mu       sync.Mutex
	roles    map[string]map[string]string // user → project → role
	admins   map[string]bool
	disabled map[string]bool
	removed  map[string]bool
}

func newAccounts() *fakeAccounts {
	return &fakeAccounts{
		roles: map[string]map[string]string{}, admins: map[string]bool{}, disabled: map[string]bool{}, removed: map[string]bool{},
	}
}

// change runs fn under the lock.
func (f *fakeAccounts) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

func (f *fakeAccounts) grant(user, project, role string) {
	f.change(func() { f.roles[user] = map[string]string{project: role} })
}
func (f *fakeAccounts) promote(user string) { f.change(func() { f.admins[user] = true }) }
func (f *fakeAccounts) disable(user string) { f.change(func() { f.disabled[user] = true }) }
func (f *fakeAccounts) remove(user string)  { f.change(func() { f.removed[user] = true }) }

func (f *fakeAccounts) GetAccount(_ context.Context, req *authpeerv1.GetAccountRequest, _ ...grpc.CallOption) (*authpeerv1.Account, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := strings.TrimPrefix(req.GetAccount(), "usr_")
	user := "usr_" + name
	if f.removed[user] {
		return nil, fault.Absentf("user", req.GetAccount())
	}
	a := &authpeerv1.Account{Id: user, Username: name, Role: "operator", Disabled: f.disabled[user]}
	if f.admins[user] {
		a.Role = "admin"
	}
	return a, nil
}

func (f *fakeAccounts) ListProjectRoles(
	_ context.Context, req *authpeerv1.ListProjectRolesRequest, _ ...grpc.CallOption,
) (*authpeerv1.ListProjectRolesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &authpeerv1.ListProjectRolesResponse{}
	for project, role := range f.roles[req.GetAccountId()] {
		if role != "" {
			resp.Roles = append(resp.Roles, &authpeerv1.ProjectRole{ProjectId: project, Role: role})
		}
	}
	return resp, nil
}

func (*fakeAccounts) GetTeam(_ context.Context, req *authpeerv1.GetTeamRequest, _ ...grpc.CallOption) (*authpeerv1.Team, error) {
	if req.GetTeam() == "nobody" {
		return nil, fault.Absentf("team", "nobody")
	}
	return &authpeerv1.Team{Id: "team_" + req.GetTeam(), Key: req.GetTeam()}, nil
}

func (*fakeAccounts) ListTeams(context.Context, *authpeerv1.ListTeamsRequest, ...grpc.CallOption) (*authpeerv1.ListTeamsResponse, error) {
	return &authpeerv1.ListTeamsResponse{Teams: []*authpeerv1.Team{{Id: "team_crew", Key: "crew"}}}, nil
}

type fakeCatalog struct {
	registrypeerv1.CatalogPeerServiceClient

	mu                  sync.Mutex
	versions            map[string][]*registrypeerv1.CatalogRecipe
	unknown, unreadable map[string]bool
	shielded            map[string]bool // ids of protected datasets
	calls               []string        // the calls that a submission makes
	large               bool            // a separate call lists the files
	changed             bool            // the digest of listed files differs from the one that was resolved
}

// called returns the recorded calls and forgets them, so that it returns each call only once.
func (c *fakeCatalog) called() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

func (c *fakeCatalog) protect(ref string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shielded[ref] = true
}

func (c *fakeCatalog) release(ref string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.shielded, ref)
}

func (c *fakeCatalog) FindProtected(
	_ context.Context, req *registrypeerv1.FindProtectedRequest, _ ...grpc.CallOption,
) (*registrypeerv1.FindProtectedResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := &registrypeerv1.FindProtectedResponse{}
	for _, ref := range req.GetRefs() {
		if c.shielded[ref] {
			resp.Refs = append(resp.Refs, ref)
		}
	}
	return resp, nil
}

func newCatalog() *fakeCatalog {
	return &fakeCatalog{
		shielded: map[string]bool{"ds/default/protected@1": true},
		unknown:  map[string]bool{"ds/default/nope@1": true}, unreadable: map[string]bool{"ds/other/secret@1": true},
		versions: map[string][]*registrypeerv1.CatalogRecipe{
			"demo/chat-tiny": {catalogRecipe("1.0.0", "sha256:d1"), catalogRecipe("0.9.0", "sha256:d0")},
			"custom/custom": {{
				Recipe:  &registryv1.Recipe{Name: "custom/custom", Version: "1.0.0", Digest: "sha256:c1", State: "active", Framework: &registryv1.RecipeFramework{RuntimeId: "any"}},
				Package: &jobsv1.ObjectRef{Uri: "blob://recipes/sha256/c1.tar", Unpack: true},
			}},
		},
	}
}

func catalogRecipe(version, digest string) *registrypeerv1.CatalogRecipe {
	return &registrypeerv1.CatalogRecipe{
		Recipe: &registryv1.Recipe{
			Name: "demo/chat-tiny", Version: version, Digest: digest, State: "active",
			Framework:    &registryv1.RecipeFramework{Name: "numpy", RuntimeId: "numpy-cpu-py311"},
			ParamsSchema: []byte(`{"type":"object","additionalProperties":false,"properties":{"optim.lr":{"type":"number","minimum":0.000001,"maximum":0.1,"default":0.003}}}`),
			Inputs:       []byte(`[{"name":"train","kind":"dataset","required":true},{"name":"model","kind":"model"}]`),
			Metrics:      []byte(`[{"key":"train/loss","unit":"nats","goal":"minimize"}]`), Outputs: []byte(`[{"kind":"checkpoint","format":"npz"}]`), Trusted: true,
		},
		Entrypoint: []string{"python", "-m", "chat_tiny.train"}, RequiredDatasets: []string{"train"},
		Package:     &jobsv1.ObjectRef{Path: ".", Uri: "blob://recipes/sha256/d1.tar", SizeBytes: 10, Sha256: "d1", Unpack: true},
		Environment: &jobsv1.EnvironmentSpec{Requirements: "numpy==2", Digest: "sha256:e1", Sdk: true},
	}
}

func (c *fakeCatalog) ResolveSubmission(
	_ context.Context, req *registrypeerv1.ResolveSubmissionRequest, _ ...grpc.CallOption,
) (*registrypeerv1.ResolveSubmissionResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, "ResolveSubmission")
	resp := &registrypeerv1.ResolveSubmissionResponse{Versions: c.versions[req.GetRecipe()], Bindings: c.resolve(req.GetBindings())}
	if name := req.GetPackageId(); name != "" {
		resp.Package = &jobsv1.ObjectRef{Path: "package.tar", Uri: "blob://projects/p/packages/" + name, Unpack: true}
	}
	return resp, nil
}

func (c *fakeCatalog) ResolveBindings(
	_ context.Context, req *registrypeerv1.ResolveBindingsRequest, _ ...grpc.CallOption,
) (*registrypeerv1.ResolveBindingsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, "ResolveBindings")
	return c.resolve(req), nil
}

func (c *fakeCatalog) resolve(req *registrypeerv1.ResolveBindingsRequest) *registrypeerv1.ResolveBindingsResponse {
	resp := &registrypeerv1.ResolveBindingsResponse{}
	for name, ref := range req.GetDatasets() {
		switch {
		case c.unknown[ref]:
			resp.Unknown = append(resp.Unknown, ref)
		case c.unreadable[ref]:
			resp.Unreadable = append(resp.Unreadable, ref)
		default:
			if c.shielded[ref] {
				resp.Protected, resp.ProtectedDatasets = true, append(resp.ProtectedDatasets, "dst_of_"+name)
			}
			resp.Datasets = append(resp.Datasets, &jobsv1.DatasetInput{
				Name: name, Ref: ref, Digest: "sha256:x", Files: []*jobsv1.ObjectRef{{Path: "a.jsonl", Uri: "blob://projects/p/blobs/aa", SizeBytes: 5, Sha256: "aa"}},
			})
		}
	}
	if c.large && req.GetFilesApart() {
		resp.FilesApart = true
		for _, d := range resp.GetDatasets() {
			d.Files = nil
		}
	}
	return resp
}

// ListBindingFiles sends two pages of one file for each dataset.
func (c *fakeCatalog) ListBindingFiles(
	_ context.Context, req *registrypeerv1.ListBindingFilesRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[registrypeerv1.BindingFiles], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, "ListBindingFiles")
	s := &fakePages{}
	for name := range req.GetDatasets() {
		for _, sha := range []string{"aa", "bb"} {
			page := &registrypeerv1.BindingFiles{Name: name, Digest: "sha256:x", Files: []*jobsv1.ObjectRef{{Path: sha, Uri: "blob://projects/p/blobs/" + sha, SizeBytes: 5, Sha256: sha}}}
			if c.changed {
				page.Digest = "sha256:y"
			}
			s.pages = append(s.pages, page)
		}
	}
	return s, nil
}

type fakePages struct {
	grpc.ClientStream
	pages []*registrypeerv1.BindingFiles
}

func (s *fakePages) Recv() (*registrypeerv1.BindingFiles, error) {
	if len(s.pages) == 0 {
		return nil, io.EOF
	}
	page := s.pages[0]
	s.pages = s.pages[1:]
	return page, nil
}

type fakeIngest struct {
	ingestpeerv1.RunDataPeerServiceClient

	mu     sync.Mutex
	fails  int
	loss   float64 // the loss of every run; 0 means 0.5
	params string  // the hyperparameters of every run; "" means a learning rate
	answer string  // the model's part of the sample of every run, in JSON; "" means a text
	// samples returns the samples of every run; nil means one sample, as an earlier version returns it.
	samples func(req *ingestpeerv1.GetRunSamplesRequest) *ingestpeerv1.GetRunSamplesResponse
	closed  chan *ingestpeerv1.CloseRunRequest
}

func (f *fakeIngest) CloseRun(
	_ context.Context, req *ingestpeerv1.CloseRunRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.CloseRunResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails > 0 {
		f.fails--
		return nil, fault.New(fault.Unavailable, "", "ingest is unavailable")
	}
	if req.GetAttempt() == 0 { // otherwise the run stays open
		f.closed <- req
	}
	return &ingestpeerv1.CloseRunResponse{Closed: true}, nil
}

// SummarizeRun has no run: the tests of runsearch cover the copies of reports.
func (*fakeIngest) SummarizeRun(
	_ context.Context, req *ingestpeerv1.SummarizeRunRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.SummarizeRunResponse, error) {
	return nil, fault.Absentf("run", req.GetRunId())
}

// SummarizeRuns has no run either.
func (*fakeIngest) SummarizeRuns(
	context.Context, *ingestpeerv1.SummarizeRunsRequest, ...grpc.CallOption,
) (*ingestpeerv1.SummarizeRunsResponse, error) {
	return &ingestpeerv1.SummarizeRunsResponse{}, nil
}

func (f *fakeIngest) GetArtifact(
	context.Context, *ingestpeerv1.GetArtifactRequest, ...grpc.CallOption,
) (*ingestpeerv1.GetArtifactResponse, error) {
	return nil, fault.Absentf("artifact", "")
}

type fakeBlobs struct{}

func (fakeBlobs) SignKnown(_ context.Context, info blob.Info, expires time.Duration) (blob.Signed, error) {
	return blob.Signed{URL: "http://signalbox.example/api/blobs/" + info.Key, ExpiresAt: clock.Real().Now().Add(expires)}, nil
}

type fakeCA struct{}

func (fakeCA) SignNode(request []byte, nodeID string) (cert, ca []byte, err error) {
	if string(request) == "bad" {
		return nil, nil, fmt.Errorf("not PEM")
	}
	return []byte("cert of " + nodeID), []byte("ca"), nil
}

// GetRunMetrics returns one point of the series named loss for any run.
func (f *fakeIngest) GetRunMetrics(
	_ context.Context, req *ingestpeerv1.GetRunMetricsRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.GetRunMetricsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value := 0.5
	if f.loss != 0 {
		value = f.loss
	}
	series := &ingestv1.MetricSeries{Key: "loss", Points: []*ingestv1.MetricPoint{{Step: 1, Value: value, Ts: timestamppb.Now(), Attempt: 1}}}
	if len(req.GetKeys()) > 0 && req.GetKeys()[0] != "loss" {
		return &ingestpeerv1.GetRunMetricsResponse{}, nil
	}
	return &ingestpeerv1.GetRunMetricsResponse{Series: []*ingestv1.MetricSeries{series}}, nil
}

func (f *fakeIngest) report(_ string, value float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loss = value
}

// GetRunHparams returns the same hyperparameters for any run.
func (f *fakeIngest) GetRunHparams(
	context.Context, *ingestpeerv1.GetRunHparamsRequest, ...grpc.CallOption,
) (*ingestpeerv1.GetRunHparamsResponse, error) {
	return &ingestpeerv1.GetRunHparamsResponse{Params: []byte(cmp.Or(f.params, `{"optim.lr":0.1}`))}, nil
}

// GetRunSamples returns one sample for any run.
func (f *fakeIngest) GetRunSamples(
	_ context.Context, req *ingestpeerv1.GetRunSamplesRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.GetRunSamplesResponse, error) {
	if f.samples != nil {
		return f.samples(req), nil
	}
	return &ingestpeerv1.GetRunSamplesResponse{Samples: []*ingestv1.Sample{{
		Step: 7, User: []byte(`"shown question"`), Assistant: []byte(cmp.Or(f.answer, `"shown answer"`)), Env: []byte(`"hidden env"`), Extra: []byte(`{"hidden":1}`),
	}}}, nil
}
