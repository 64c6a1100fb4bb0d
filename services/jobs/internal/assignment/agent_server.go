package assignment

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/ingesttoken"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// AgentServer implements AgentService.
type AgentServer struct {
	jobsv1.UnimplementedAgentServiceServer
	Agents *Agents
	Tokens *ingesttoken.Store
	Blobs  Signer
	Trail  db.Recorder
	Nodes  Renewer
}

// Renewer renews the certificates of nodes.
type Renewer interface {
	Renew(ctx context.Context, nodeID string, request []byte) (*fleet.Joined, error)
}

// Signer signs downloads from the object store. blob.Store implements it.
type Signer interface {
	SignGet(ctx context.Context, key string, expires time.Duration) (blob.Signed, error)
}

// Connect serves the stream of one agent.
func (s *AgentServer) Connect(stream agentStream) error { return s.Agents.Serve(stream) }

// MintIngestToken creates an ingest token for an attempt whose process has not started.
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
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		tok, expires, err := s.Tokens.Mint(ctx, tx,
			ingesttoken.Holder{WorkID: w.ID, JobID: w.JobID, RunID: spec.GetRunId(), Attempt: w.Number}, now)
		if err != nil {
			return err
		}
		resp.Token, resp.ExpiresAt = tok.Reveal(), timestamppb.New(expires)
		return s.Trail.Record(ctx, tx, "ingest_token.create", job.SubjectKind, w.JobID,
			map[string]any{"work_id": w.ID, "attempt": w.Number, "expires_at": expires})
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// downloadTime is how long a signed URL can be used to start a download.
const downloadTime = 15 * time.Minute

// SignDownload signs the download of an object that the work's spec refers to.
func (s *AgentServer) SignDownload(ctx context.Context, req *jobsv1.SignDownloadRequest) (*jobsv1.SignedDownload, error) {
	w, err := s.Agents.Works.Get(ctx, s.Agents.Pool, req.GetWorkId())
	if err != nil {
		return nil, err
	}
	if err := checkExecution(ctx, w, Key{ID: w.ID, Generation: req.GetGeneration(), Fence: req.GetFence()}); err != nil {
		return nil, err
	}
	named, err := objects(w)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(named, req.GetUri()) {
		return nil, fault.Absentf("object", req.GetUri())
	}
	key, ok := blob.ParseURI(req.GetUri())
	if !ok {
		return nil, fault.Absentf("object", req.GetUri())
	}
	signed, err := s.Blobs.SignGet(ctx, key, downloadTime)
	if err != nil {
		return nil, err
	}
	return &jobsv1.SignedDownload{Url: signed.URL, ExpiresAt: timestamppb.New(signed.ExpiresAt)}, nil
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

// objects returns the URIs that the work's spec refers to.
func objects(w *Work) ([]string, error) {
	m, err := toProto(w, "")
	if err != nil {
		return nil, err
	}
	var refs []*jobsv1.ObjectRef
	if a := m.GetAttempt(); a != nil {
		refs = append(refs, a.GetPackage())
		for _, d := range a.GetDatasets() {
			refs = append(refs, d.GetFiles()...)
		}
		refs = append(refs, a.GetModel().GetFiles()...)
		refs = append(refs, a.GetResume().GetFile())
	}
	refs = append(refs, m.GetEngine().GetModel()...)
	uris := make([]string, 0, len(refs))
	for _, r := range refs {
		if r.GetUri() != "" {
			uris = append(uris, r.GetUri())
		}
	}
	return uris, nil
}
