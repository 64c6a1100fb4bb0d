package assignment

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
)

// AgentServer implements AgentService.
type AgentServer struct {
	jobsv1.UnimplementedAgentServiceServer
	Agents *Agents
	Tokens *reporting.Store
	// Blobs signs downloads. If it is also a blob.Local, FetchObjects reads small objects from it.
	Blobs Signer
	Trail db.Recorder
	Nodes Renewer
	// Rand is the source of randomness for the tokens of leases.
	Rand io.Reader
	// Pools reads the settings of pools. In some pools, an attempt ends itself if its lease was not renewed for the time
	// Fence.
	Pools fleet.Store
	Fence time.Duration

	named named
}

// Renewer renews the certificates of nodes.
type Renewer interface {
	Renew(ctx context.Context, nodeID string, request []byte) (*fleet.Joined, error)
}

// Signer signs downloads from the object store. blob.Store implements it.
type Signer interface {
	SignKnown(ctx context.Context, info blob.Info, expires time.Duration) (blob.Signed, error)
}

// Connect serves the stream of one agent.
func (s *AgentServer) Connect(stream agentStream) error { return s.Agents.Serve(stream) }

// MintIngestToken creates an ingest token and a lease for an attempt whose process has not started.
func (s *AgentServer) MintIngestToken(ctx context.Context, req *jobsv1.MintIngestTokenRequest) (*jobsv1.IngestToken, error) {
	key := Key{ID: req.GetWorkId(), Generation: req.GetGeneration(), Fence: req.GetFence()}
	resp := &jobsv1.IngestToken{}
	err := pg.InTx(ctx, s.Agents.Pool, func(ctx context.Context, tx pgx.Tx) error {
		w, err := s.Agents.Works.Lock(ctx, tx, key.ID)
		if err != nil {
			return err
		}
		if err := checkExecution(ctx, w, key); err != nil {
			return err
		}
		if w.Kind != Attempt || w.Desired != WantRunning || w.RunningAt != nil {
			return fault.New(fault.Conflict, "work_started", "work %s has already started", w.ID)
		}
		spec := &jobsv1.AttemptSpec{}
		if err := proto.Unmarshal(w.Spec, spec); err != nil {
			return err
		}
		if err := s.checkNode(ctx, tx, w, spec); err != nil {
			return err
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		tok, expires, err := s.Tokens.Mint(ctx, tx,
			reporting.Holder{WorkID: w.ID, JobID: w.JobID, RunID: spec.GetRunId(), Attempt: w.Number}, now)
		if err != nil {
			return err
		}
		lease, err := s.grant(ctx, tx, w, now)
		if err != nil {
			return err
		}
		silence, err := s.silence(ctx, tx, batchPools(w, spec))
		if err != nil {
			return err
		}
		resp.Token, resp.ExpiresAt = tok.Reveal(), timestamppb.New(expires)
		resp.LeaseToken, resp.SilenceS = lease.Reveal(), silence
		return s.Trail.Record(ctx, tx, "ingest_token.create", job.SubjectKind, w.JobID,
			map[string]any{"work_id": w.ID, "attempt": w.Number, "expires_at": expires})
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// checkNode refuses to start an attempt that the current agent of its node cannot run as its spec requires.
func (s *AgentServer) checkNode(ctx context.Context, tx pgx.Tx, w *Work, spec *jobsv1.AttemptSpec) error {
	if err := s.checkNetwork(ctx, tx, w, spec); err != nil {
		return err
	}
	return s.checkRuntime(ctx, tx, w, spec.GetEnvironment())
}

// checkNetwork refuses to start an attempt that must run without network access, if the current agent of its node
// cannot ensure that.
func (s *AgentServer) checkNetwork(ctx context.Context, tx pgx.Tx, w *Work, spec *jobsv1.AttemptSpec) error {
	if !spec.GetNoNetwork() {
		return nil
	}
	if spec.GetBatch() != nil {
		return s.checkSlurmNetwork(ctx, tx, w, spec)
	}
	closes, err := s.Pools.ClosesNetwork(ctx, tx, w.NodeID)
	if err == nil && !closes {
		return fault.New(fault.Forbidden, fleet.CodeIsolation, "node %s cannot run work %s without network access; repair what the node reports as boundary.network_problem, "+
			"or upgrade its agent", w.NodeID, w.ID)
	}
	return err
}

// checkSlurmNetwork refuses to give an attempt that must run without network access to a Slurm cluster that cannot ensure
// that any more.
func (s *AgentServer) checkSlurmNetwork(ctx context.Context, tx pgx.Tx, w *Work, spec *jobsv1.AttemptSpec) error {
	n, err := s.Pools.Node(ctx, tx, w.NodeID)
	if err != nil {
		return err
	}
	if pools := batchPools(w, spec); n.Slurm == nil || !n.Slurm.ClosesNetwork(pools, false) {
		return fault.New(fault.Forbidden, fleet.CodeIsolation, "the Slurm cluster of node %s cannot run work %s without network access; "+
			"repair what the tests of the pools %s report", w.NodeID, w.ID, strings.Join(pools, ", "))
	}
	return nil
}

// checkRuntime refuses to start an attempt whose environment the current agent of its node does not offer. An agent of an
// earlier version would run the command with the node's own Python.
func (s *AgentServer) checkRuntime(ctx context.Context, tx pgx.Tx, w *Work, e *jobsv1.EnvironmentSpec) error {
	runtime := ""
	switch {
	case e.GetPython() != "":
		runtime = fleet.NodeRuntime(e.GetPython())
	case e.GetLock() != "":
		runtime = fleet.RuntimeRequirements
	default:
		return nil
	}
	offers, err := s.Pools.Offers(ctx, tx, w.NodeID, runtime)
	if err == nil && !offers {
		return fault.New(fault.Conflict, "runtime_gone", "node %s does not %s any more, as work %s needs; upgrade its agent or correct SERVICE_AGENT_PYTHONS",
			w.NodeID, fleet.DescribeRuntime(runtime), w.ID)
	}
	return err
}

// GrantLease begins the lease of an engine.
func (s *AgentServer) GrantLease(ctx context.Context, req *jobsv1.GrantLeaseRequest) (*jobsv1.GrantedLease, error) {
	key := Key{ID: req.GetWorkId(), Generation: req.GetGeneration(), Fence: req.GetFence()}
	resp := &jobsv1.GrantedLease{}
	err := pg.InTx(ctx, s.Agents.Pool, func(ctx context.Context, tx pgx.Tx) error {
		w, err := s.Agents.Works.Lock(ctx, tx, key.ID)
		if err != nil {
			return err
		}
		if err := checkExecution(ctx, w, key); err != nil {
			return err
		}
		if w.Kind != Engine {
			return fault.New(fault.Conflict, "work_kind", "work %s is not an engine", w.ID)
		}
		if w.Desired != WantRunning {
			return fault.New(fault.Conflict, "work_moved", "work %s must end, so it gets no lease", w.ID)
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		lease, err := s.grant(ctx, tx, w, now)
		resp.LeaseToken = lease.Reveal()
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// grant begins the lease of a work and returns its token.
func (s *AgentServer) grant(ctx context.Context, tx pgx.Tx, w *Work, now time.Time) (secret.String, error) {
	lease, err := secret.Mint(s.Rand, secret.KindLease)
	if err != nil {
		return secret.String{}, err
	}
	return lease, s.Agents.Works.Grant(ctx, tx, w.ID, secret.Hash(lease.Reveal()), now)
}

// silence returns the number of seconds without a renewed lease after which an attempt in the pools must end itself; 0
// means never.
func (s *AgentServer) silence(ctx context.Context, tx pgx.Tx, pools []string) (int32, error) {
	stops, err := s.Pools.StopsOnSilence(ctx, tx, pools)
	if err != nil || !stops {
		return 0, err
	}
	return int32(max(1, s.Fence/time.Second)), nil
}

// RenewCertificate issues a new certificate to the calling node.
func (s *AgentServer) RenewCertificate(
	ctx context.Context, req *jobsv1.RenewCertificateRequest,
) (*jobsv1.RenewCertificateResponse, error) {
	renewed, err := s.Nodes.Renew(ctx, authn.CallerOf(ctx).Subject, []byte(req.GetCertificateRequest()))
	if err != nil {
		return nil, err
	}
	return &jobsv1.RenewCertificateResponse{Certificate: string(renewed.CertPEM), CaCertificate: string(renewed.CAPEM)}, nil
}

// checkExecution verifies that the calling node runs this execution of the work. For any other node it returns an
// error of kind fault.Absent, so that the node cannot tell whether the work exists.
func checkExecution(ctx context.Context, w *Work, key Key) error {
	caller := authn.CallerOf(ctx)
	if caller.Kind != authn.KindAgent || caller.Subject != w.NodeID {
		return fault.Absentf("work", w.ID)
	}
	if key != w.Key || w.Released() {
		return fault.New(fault.Conflict, "work_moved", "this execution of work %s is over", w.ID)
	}
	return nil
}

// LeaseServer implements LeaseService.
type LeaseServer struct {
	jobsv1.UnimplementedLeaseServiceServer
	Pool  *pgxpool.Pool
	Works *Store
	// Every is the time between two renewals.
	Every time.Duration
	// Count counts the renewals.
	Count *Renewals
}

// RenewLease renews the lease of an attempt or an engine that should run.
func (s *LeaseServer) RenewLease(ctx context.Context, req *jobsv1.RenewLeaseRequest) (*jobsv1.Lease, error) {
	wanted, err := s.renew(ctx, req)
	s.Count.add(ctx, wanted, err)
	if err != nil {
		return nil, err
	}
	return &jobsv1.Lease{RenewS: int32(max(1, s.Every/time.Second)), Stop: !wanted}, nil
}

// renew reports whether the work should run, and renews its lease if it should.
func (s *LeaseServer) renew(ctx context.Context, req *jobsv1.RenewLeaseRequest) (wanted bool, err error) {
	hash, ok := secret.Parse(secret.KindLease, req.GetToken())
	if !ok {
		return false, errLease()
	}
	now, err := pg.Now(ctx, s.Pool)
	if err != nil {
		return false, err
	}
	known, wanted, err := s.Works.Renew(ctx, s.Pool, req.GetWorkId(), hash, now)
	if err != nil {
		return false, err
	}
	if !known {
		return false, errLease()
	}
	return wanted, nil
}

// Renewals counts renewals of leases by their result.
type Renewals struct{ counter metric.Int64Counter }

// NewRenewals registers the counter; meters may be nil.
func NewRenewals(meters metric.MeterProvider) (*Renewals, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "jobs_lease_renewals_total"
	counter, err := meters.Meter("jobs").Int64Counter(name, metric.WithDescription("renewals of the leases of attempts and engines, by result"))
	if err != nil {
		return nil, fmt.Errorf("create the counter %s: %w", name, err)
	}
	return &Renewals{counter: counter}, nil
}

// add counts a renewal. The result `refused` means that the work was given up or the token is unknown, and `failed`
// that the database could not be reached.
func (r *Renewals) add(ctx context.Context, wanted bool, err error) {
	result := "renewed"
	switch {
	case fault.HasCode(err, codeLease):
		result = "refused"
	case err != nil:
		result = "failed"
	case !wanted:
		result = "stopping"
	}
	r.counter.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
}

const codeLease = "lease_token"

// errLease returns the same error for an unknown work, a revoked token and a token of another work.
func errLease() error {
	return fault.New(fault.Unauthenticated, codeLease, "the lease token is unknown or revoked")
}
