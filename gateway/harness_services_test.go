package gateway_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The access tokens that the fake auth accepts.
const (
	userToken  = "eyJh.user.c2ln"
	adminToken = "eyJh.admin.c2ln"
)

// receivedCall is a call that a fake service received.
type receivedCall struct {
	method string
	caller authn.Caller
	md     metadata.MD
	in     any
}

// callRecorder records the calls that the fake services received.
type callRecorder struct {
	mu    sync.Mutex
	calls []receivedCall
}

func (t *callRecorder) record(ctx context.Context, method string, in any) {
	md, _ := metadata.FromIncomingContext(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, receivedCall{method: method, caller: *authn.CallerOf(ctx), md: md, in: in})
}

// reached returns all calls except anonymous Authenticate calls. The gateway may make such a call for any route, to
// find out whether the installation is in maintenance.
func (t *callRecorder) reached() (out []receivedCall) {
	for _, s := range t.all() {
		if in, ok := s.in.(*authpeerv1.AuthenticateRequest); !ok || in.GetCredential() != "" {
			out = append(out, s)
		}
	}
	return out
}

func (t *callRecorder) all() []receivedCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]receivedCall(nil), t.calls...)
}

// credentials is a fake credential service that accepts two tokens until they are revoked.
type credentials struct {
	authpeerv1.UnimplementedCredentialServiceServer
	*callRecorder
	signer  *authn.Signer
	revoked sync.Map
	demoted sync.Map
	mode    atomic.Pointer[fault.Error] // during maintenance, the error for every caller; otherwise nil
}

func (c *credentials) Authenticate(ctx context.Context, in *authpeerv1.AuthenticateRequest) (*authpeerv1.AuthenticateResponse, error) {
	c.record(ctx, "Authenticate", in)
	if off := c.mode.Load(); off != nil && !in.GetInMaintenance() {
		return nil, off
	}
	who := &authn.Caller{Kind: authn.KindNone, ClientAddr: in.GetClientAddress()}
	if _, gone := c.revoked.Load(in.GetCredential()); gone {
		return nil, fault.New(fault.Unauthenticated, "token_revoked", "Could not validate credentials")
	}
	switch in.GetCredential() {
	case "":
	case userToken, adminToken:
		who.Kind, who.Subject, who.Username, who.Role = authn.KindUser, "usr_1", "ada", authn.RoleOperator
		if in.GetCredential() == adminToken {
			who.Role = authn.RoleAdmin
		}
		if _, less := c.demoted.Load(in.GetCredential()); less {
			who.Role = authn.RoleOperator
		}
	default:
		return nil, fault.New(fault.Unauthenticated, "token_invalid", "Could not validate credentials")
	}
	token, _, err := c.signer.Sign(who)
	return &authpeerv1.AuthenticateResponse{CallerToken: token}, err
}

type auth struct {
	authv1.UnimplementedAuthServiceServer
	*callRecorder
	cookies []string
	methods []string
}

func (a *auth) GetConfig(ctx context.Context, in *authv1.GetConfigRequest) (*authv1.AuthConfig, error) {
	a.record(ctx, "GetConfig", in)
	return &authv1.AuthConfig{Methods: a.methods}, nil
}

func (a *auth) Login(ctx context.Context, in *authv1.LoginRequest) (*authv1.LoginResponse, error) {
	a.record(ctx, "Login", in)
	for _, cookie := range a.cookies {
		if err := grpc.SetHeader(ctx, metadata.Pairs("x-service-set-cookie", cookie)); err != nil {
			return nil, err
		}
	}
	return &authv1.LoginResponse{Token: userToken, User: &authv1.LoginUser{Username: in.GetUsername(), Role: "operator"}}, nil
}

func (a *auth) Refresh(ctx context.Context, in *authv1.RefreshRequest) (*authv1.LoginResponse, error) {
	a.record(ctx, "Refresh", in)
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-service-set-cookie", "service_refresh=; Max-Age=0; HttpOnly")); err != nil {
		return nil, err
	}
	if len(metadata.ValueFromIncomingContext(ctx, "x-service-refresh")) != 1 {
		return nil, fault.New(fault.Unauthenticated, "bad_refresh", "the refresh token is missing, used or expired")
	}
	return &authv1.LoginResponse{Token: userToken}, nil
}

func (a *auth) Logout(ctx context.Context, in *authv1.LogoutRequest) (*emptypb.Empty, error) {
	a.record(ctx, "Logout", in)
	return &emptypb.Empty{}, nil
}

type jobs struct {
	jobsv1.UnimplementedJobServiceServer
	*callRecorder
}

func (j *jobs) SubmitJob(ctx context.Context, in *jobsv1.SubmitJobRequest) (*jobsv1.Job, error) {
	j.record(ctx, "SubmitJob", in)
	return &jobsv1.Job{Id: "job_1", State: jobsv1.JobState_JOB_STATE_QUEUED, Spec: in.GetSpec().GetHparams()}, nil
}

func (j *jobs) GetJob(ctx context.Context, in *jobsv1.GetJobRequest) (*jobsv1.Job, error) {
	j.record(ctx, "GetJob", in)
	switch in.GetJobId() {
	case "job_panic":
		panic("secret inside")
	case "job_slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "job_broken":
		return &jobsv1.Job{Spec: []byte("{")}, nil
	case "job_impact":
		if err := grpc.SetHeader(ctx, metadata.Pairs("x-service-impact", "sha256:ab", "x-internal", "kept inside")); err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Conflict, "impact", "confirm the impact")
	}
	return nil, fault.Absentf("job", in.GetJobId())
}

func (j *jobs) ListJobs(ctx context.Context, in *jobsv1.ListJobsRequest) (*jobsv1.ListJobsResponse, error) {
	j.record(ctx, "ListJobs", in)
	if in.GetState() != "" {
		return &jobsv1.ListJobsResponse{}, nil
	}
	md := metadata.Pairs("x-service-more", "true", "x-service-total", "120", "x-service-set-cookie", "service_refresh=evil")
	return &jobsv1.ListJobsResponse{Jobs: []*jobsv1.Job{{Id: "job_2"}, {Id: "job_1"}}}, grpc.SetHeader(ctx, md)
}

func (j *jobs) StopJob(ctx context.Context, in *jobsv1.StopJobRequest) (*jobsv1.Job, error) {
	j.record(ctx, "StopJob", in)
	return &jobsv1.Job{Id: in.GetJobId()}, nil
}

type fleets struct {
	jobsv1.UnimplementedFleetServiceServer
	*callRecorder
}

func (f *fleets) CreateFleet(ctx context.Context, in *jobsv1.CreateFleetRequest) (*jobsv1.Fleet, error) {
	f.record(ctx, "CreateFleet", in)
	return &jobsv1.Fleet{Id: "flt_1", Kind: in.GetKind()}, nil
}

func (f *fleets) CreateJoinToken(ctx context.Context, in *jobsv1.CreateJoinTokenRequest) (*jobsv1.JoinToken, error) {
	f.record(ctx, "CreateJoinToken", in)
	return &jobsv1.JoinToken{Id: "fjt_1"}, nil
}

type deployments struct {
	registryv1.UnimplementedDeploymentServiceServer
	*callRecorder
}

func (d *deployments) RevokeDeploymentToken(ctx context.Context, in *registryv1.RevokeDeploymentTokenRequest) (*emptypb.Empty, error) {
	d.record(ctx, "RevokeDeploymentToken", in)
	return &emptypb.Empty{}, nil
}

func (d *deployments) GetRevision(ctx context.Context, in *registryv1.GetRevisionRequest) (*registryv1.Revision, error) {
	d.record(ctx, "GetRevision", in)
	return &registryv1.Revision{Number: in.GetNumber()}, nil
}

type models struct {
	registryv1.UnimplementedModelServiceServer
	*callRecorder
}

func (m *models) CreateModelVersion(ctx context.Context, in *registryv1.CreateModelVersionRequest) (*registryv1.ModelVersion, error) {
	m.record(ctx, "CreateModelVersion", in)
	return &registryv1.ModelVersion{Version: 3}, grpc.SetHeader(ctx, metadata.Pairs("x-service-status", in.GetSource().GetRunId()))
}

type runData struct {
	ingestv1.UnimplementedRunDataServiceServer
	*callRecorder
}

func (d *runData) FollowLogs(in *ingestv1.FollowLogsRequest, stream grpc.ServerStreamingServer[ingestv1.FollowLogsResponse]) error {
	d.record(stream.Context(), "FollowLogs", in)
	if strings.HasSuffix(in.GetId(), "absent") {
		return fault.Absentf("run", in.GetId())
	}
	behind := fault.InvalidFields(fault.At(fault.TypeLessThanEqual, "Input should be less than or equal to 3", "after"))
	if strings.HasSuffix(in.GetId(), "short") {
		return behind
	}
	if err := stream.Send(&ingestv1.FollowLogsResponse{Event: &ingestv1.FollowLogsResponse_Line{Line: &ingestv1.LogLine{Seq: in.GetAfter() + 1}}}); err != nil {
		return err
	}
	if strings.HasSuffix(in.GetId(), "late") {
		return behind
	}
	if strings.HasSuffix(in.GetId(), "live") {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return stream.Send(&ingestv1.FollowLogsResponse{Event: &ingestv1.FollowLogsResponse_Eof{Eof: &ingestv1.Eof{Seq: in.GetAfter() + 2, State: "failed"}}})
}

func (r *harness) register(service string, s grpc.ServiceRegistrar) {
	switch service {
	case "auth":
		authpeerv1.RegisterCredentialServiceServer(s, r.credentials)
		authv1.RegisterAuthServiceServer(s, r.auth)
		(&formServices{callRecorder: &r.callRecorder}).register(s)
	case "jobs":
		jobsv1.RegisterJobServiceServer(s, &jobs{callRecorder: &r.callRecorder})
		jobsv1.RegisterFleetServiceServer(s, &fleets{callRecorder: &r.callRecorder})
	case "ingest":
		ingestv1.RegisterRunDataServiceServer(s, &runData{callRecorder: &r.callRecorder})
	case "registry":
		registryv1.RegisterDeploymentServiceServer(s, &deployments{callRecorder: &r.callRecorder})
		registryv1.RegisterModelServiceServer(s, &models{callRecorder: &r.callRecorder})
	case "inference":
		inferencev1.RegisterTrafficServiceServer(s, inferencev1.UnimplementedTrafficServiceServer{})
	}
}
