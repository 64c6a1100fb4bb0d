package inference

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/inference/internal/db"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/playgroundproxy"
	"github.com/signalbox-dev/signalbox/services/inference/internal/proxy"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// Name is the name of the service, of its database schema and of its identity at other services.
const Name = "inference"

// Deps holds what the service needs from its process.
type Deps struct {
	Pool      *pgxpool.Pool
	Snapshots registrypeerv1.SnapshotServiceClient
	Sessions  registrypeerv1.PlaygroundPeerServiceClient
	Clock     clock.Clock
	// Mono is a monotonic clock, used for leases.
	Mono func() time.Duration
	IDs  *id.Source
	Log  *slog.Logger
	// EngineTLS returns the TLS configuration for connections to engines on another host. The peer must prove the
	// identity of the node. EngineTLS is nil if all engines run on this host.
	EngineTLS func(node string) *tls.Config
	// Meter counts calls and refusals. A nil Meter counts nothing.
	Meter metric.MeterProvider
	// Registry exports the metrics of each deployment. They are not exported if it is nil.
	Registry prometheus.Registerer
}

// Service is the inference service with its parts wired together.
type Service struct {
	cfg      Config
	deps     Deps
	lease    *routing.Lease
	watcher  *routing.Watcher
	relay    *engineclient.Client
	proxy    *proxy.Proxy
	store    *traffic.Store
	recorder *traffic.Recorder
	traffic  *traffic.Server
	turns    *playgroundproxy.Store
	sessions *playgroundproxy.Server
	front    *front
	watchdog *engineclient.Watchdog
	current  atomic.Bool // the schema of the database was current at the start
}

// Migrations returns the goose files of the inference schema.
func Migrations() (fs.FS, error) { return db.Migrations() }

// New wires the service. It starts no goroutine.
func New(ctx context.Context, cfg Config, d Deps) (*Service, error) {
	if cfg.Spool == "" {
		return nil, errors.New("SERVICE_INFERENCE_SPOOL must be set to a folder that only this process uses")
	}
	spool, err := traffic.NewSpool(cfg.Spool, d.IDs)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: d, lease: routing.New(d.Mono), store: &traffic.Store{Pool: d.Pool}}
	metrics, err := traffic.NewCallMetrics(ctx, d.Meter, d.Registry, s.serves)
	if err != nil {
		return nil, err
	}
	s.recorder = traffic.NewRecorder(s.store, spool, d.Clock, d.Log, metrics)
	s.watcher = &routing.Watcher{
		Lease: s.lease, Snapshots: d.Snapshots, Name: func() string { return d.IDs.New(id.Replica) },
		Roll: &routing.ReplicaFile{Path: filepath.Join(cfg.Spool, "replicas")}, Clock: d.Clock, Log: d.Log,
	}
	s.relay = &engineclient.Client{
		Timeouts: engineclient.Timeouts{Connect: cfg.Connect, Send: cfg.Idle, FirstByte: cfg.FirstByte, Idle: cfg.EngineIdle},
		Clock:    d.Clock, TLS: d.EngineTLS,
	}
	s.watchdog = &engineclient.Watchdog{
		Client: s.relay, Targets: func() []engineclient.Target { return proxy.Targets(s.lease) }, Store: &engineclient.SilenceStore{Pool: d.Pool},
		Replacer: &replacer{d.Snapshots}, After: cfg.EngineSilence, Name: d.IDs.New(id.Replica), Clock: d.Clock, Log: d.Log, Tally: metrics,
	}
	s.proxy = &proxy.Proxy{
		Lease: s.lease, Engines: s.relay, Recorder: s.recorder, Clock: d.Clock, IDs: d.IDs, Log: d.Log,
		Tally: metrics, MaxBody: cfg.MaxBodyMB << 20, Idle: cfg.Idle,
		Sockets: proxy.Sockets{Idle: cfg.SocketIdle, MaxMessage: cfg.SocketMessageMB << 20},
	}
	sessions := &playgroundproxy.Registry{Client: d.Sessions}
	s.turns = &playgroundproxy.Store{Pool: d.Pool}
	s.sessions = &playgroundproxy.Server{Sessions: sessions, Store: s.turns}
	s.front = &front{Proxy: s.proxy, fast: cfg.Fast == "on", playground: &playgroundproxy.Handler{
		Sessions: sessions, Proxy: s.proxy, Store: s.turns, Clock: d.Clock, IDs: d.IDs, Log: d.Log,
	}}
	s.traffic = &traffic.Server{Store: s.store, Owner: s.owner, Stored: s.stored, Clock: d.Clock, Reads: traffic.NewReads()}
	return s, nil
}

// serves reports whether the snapshot has a deployment.
func (s *Service) serves(deploymentID string) bool {
	_, ok := s.lease.Deployment(deploymentID)
	return ok
}

// owner returns the owner of a deployment in the snapshot. Without a valid lease it returns the same error as the
// proxy, because it cannot know whether the deployment exists.
func (s *Service) owner(deploymentID string) (o traffic.Owner, ok bool, err error) {
	if !s.lease.Valid() {
		return traffic.Owner{}, false, proxy.LeaseExpired()
	}
	d, ok := s.lease.Deployment(deploymentID)
	if !ok {
		return traffic.Owner{}, false, nil
	}
	return traffic.Owner{UserID: d.OwnerID, ProjectID: d.ProjectID, Visibility: d.Visibility}, true, nil
}

// stored returns the owner of a deployment, even if the deployment is deleted. It calls the registry with the service's
// own identity, so the traffic server must check whether the user may see the deployment.
func (s *Service) stored(ctx context.Context, deploymentID string) (traffic.Owner, error) {
	o, err := s.deps.Snapshots.GetDeploymentOwner(authn.Background(ctx), &registrypeerv1.GetDeploymentOwnerRequest{DeploymentId: deploymentID})
	if err != nil {
		return traffic.Owner{}, err
	}
	return traffic.Owner{UserID: o.GetOwnerId(), ProjectID: o.GetProjectId(), Visibility: o.GetVisibility()}, nil
}

// replacer replaces engines by calling the registry.
type replacer struct {
	snapshots registrypeerv1.SnapshotServiceClient
}

// Replace implements engineclient.Replacer.
func (r *replacer) Replace(ctx context.Context, t engineclient.Target, silent time.Duration) (bool, error) {
	out, err := r.snapshots.ReplaceEngine(authn.Background(ctx), &registrypeerv1.ReplaceEngineRequest{
		RevisionId: t.RevisionID, ReplicaId: t.ReplicaID, Address: t.Address, Silent: durationpb.New(silent),
	})
	if err != nil {
		return false, fmt.Errorf("replace the engine of revision %s: %w", t.RevisionID, err)
	}
	return out.GetReplaced(), nil
}

// Name returns the service's name.
func (s *Service) Name() string { return Name }

// Register registers the gRPC services of inference.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	inferencev1.RegisterTrafficServiceServer(r, s.traffic)
	inferencev1.RegisterTranscriptServiceServer(r, s.sessions)
}

// front is the HTTP handler. It passes calls of playground sessions to the playground handler and all other calls to
// the proxy.
type front struct {
	*proxy.Proxy

	fast       bool
	playground http.Handler
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if enginepath.UnderSession(r.URL.Path) {
		f.playground.ServeHTTP(w, r)
		return
	}
	f.Proxy.ServeHTTP(w, r)
}

// Relay implements httprelay.Relay.
func (f *front) Relay(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
	if !f.fast {
		return httprelay.Declined
	}
	return f.Proxy.Relay(c, r)
}

// Handler returns the handler of /inference/{deployment_id}/v1/... and of the targets of playground sessions.
func (s *Service) Handler() http.Handler { return s.front }

// Drain makes the handler refuse new calls from now on. Open calls continue.
func (s *Service) Drain() { s.proxy.Drain() }

const (
	// partitionsEvery is how often the partitions of the coming days are created.
	partitionsEvery  = time.Hour
	partitionsJitter = 10 * time.Minute
	// staleEvery is how often stale idle connections to engines are closed.
	staleEvery  = 30 * time.Second
	staleJitter = 5 * time.Second
)

// Retention returns the rules by which old rows are deleted.
func (s *Service) Retention() []retention.Rule {
	return []retention.Rule{
		{Name: "day of calls", Age: retention.Days(s.cfg.TrafficDays), Step: s.store.DropDays},
		{Name: "rollup of calls", Age: retention.Days(s.cfg.RollupDays), Step: s.store.DeleteRollups},
		{Name: "batch name", Age: traffic.BatchAge, Step: s.store.DeleteBatches},
		{Name: "playground turn", Age: retention.Days(s.cfg.TranscriptDays), Step: s.turns.DeleteBefore},
	}
}

// Workers returns the background loops of the service.
func (s *Service) Workers() []process.Worker {
	return []process.Worker{
		{Name: "inference.recorder", Run: s.recorder.Run},
		{Name: "inference.partitions", Run: func(ctx context.Context) error {
			tend := process.Logged(s.deps.Log, "inference.partitions", func(ctx context.Context) error {
				return s.store.EnsurePartitions(ctx)
			})
			return process.Loop(ctx, s.deps.Clock, partitionsEvery, partitionsJitter, tend)
		}},
		{Name: "inference.engines", Run: func(ctx context.Context) error {
			defer s.relay.CloseIdle()
			return process.Loop(ctx, s.deps.Clock, staleEvery, staleJitter, s.relay.CloseStale)
		}},
		{Name: "inference.guard", Run: func(ctx context.Context) error { return s.lease.Guard(ctx, s.deps.Clock) }},
		{Name: "inference.lease", Run: s.watcher.Run},
		{Name: "inference.watchdog", Run: s.watchdog.Run},
	}
}

// Ready checks the schema of the database until it is current, and that no other process uses the folder of the spool. It
// does not wait for a snapshot, because the loop that fetches it starts only after Ready succeeds.
func (s *Service) Ready(ctx context.Context) error {
	if s.current.Load() {
		return s.recorder.Own(ctx)
	}
	files, err := db.Migrations()
	if err != nil {
		return fmt.Errorf("open the migrations: %w", err)
	}
	if err := migrate.Check(ctx, s.deps.Pool, Name, files); err != nil {
		return err
	}
	s.current.Store(true)
	return s.recorder.Own(ctx)
}

// errNoLease is the error of Serves without a valid lease.
var errNoLease = errors.New("no valid lease from the registry; until it arrives, calls are refused with 503 lease_over")

// Serves implements boot.Server. It does not use the database: calls do not need it, and its absence would otherwise take
// all replicas out of service at once.
func (s *Service) Serves(ctx context.Context) error {
	switch {
	case !s.current.Load():
		return errors.New("the schema of the database has not been checked yet")
	case !s.lease.Valid():
		return errNoLease
	}
	return s.recorder.Own(ctx)
}
