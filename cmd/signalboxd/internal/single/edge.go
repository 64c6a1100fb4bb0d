package single

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/agent/link"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/platform/secret"
	pysdk "github.com/signalbox-dev/signalbox/sdk/python"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

// localFleet is the fleet of the agent in this process, and its pool.
const (
	localFleet = "local"
	localPool  = "default"
)

// agent is the embedded agent: it joins its fleet and dials jobs in memory, as any other agent does
// over the network.
func (h *house) agent(p *parts) (run.Worker, error) {
	cfg := h.settings.Agent
	cfg.Data, cfg.Exec, cfg.Environ, cfg.Version = h.folder.in("agent"), h.options.Exec, os.Environ(), version.Server()
	if cfg.Hostname == "" {
		var err error
		if cfg.Hostname, err = os.Hostname(); err != nil {
			return run.Worker{}, fmt.Errorf("find the machine's name: %w", err)
		}
	}
	sdk, err := pysdk.Files()
	if err != nil {
		return run.Worker{}, fmt.Errorf("open the Python reporter: %w", err)
	}
	joiner, err := h.joiner()
	if err != nil {
		return run.Worker{}, err
	}
	a, err := agent.New(cfg, agent.Deps{
		Joiner: joiner,
		Token: func(ctx context.Context) (secret.String, error) {
			return p.jobs.JoinLocal(ctx, localFleet, []string{localPool})
		},
		Dial: func(n link.Node) (*grpc.ClientConn, error) {
			name, err := pki.NodeName(n.ID)
			if err != nil {
				return nil, err
			}
			return h.bus.As(name).Dial(jobs.Name)
		},
		SDK: sdk, Clock: h.clock, Rand: rand.Reader, Jitter: mathrand.Float64, Log: h.obs.Logger("agent"),
	})
	if err != nil {
		return run.Worker{}, err
	}
	h.closers.Add("agent", func(context.Context) error { return a.Close() })
	return a.Worker(true), nil
}

// inProcess joins over the bus as the gateway would hand the request on: with the identity of nobody.
type inProcess struct {
	credentials authpeerv1.CredentialServiceClient
	fleets      jobsv1.FleetServiceClient
	house       *house
}

func (h *house) joiner() (link.Joiner, error) {
	edge := h.bus.As("gateway")
	authConn, err := edge.Dial(auth.Name)
	if err != nil {
		return nil, fmt.Errorf("dial auth: %w", err)
	}
	h.closers.Add("agent to auth", func(context.Context) error { return authConn.Close() })
	jobsConn, err := edge.Dial(jobs.Name)
	if err != nil {
		return nil, fmt.Errorf("dial jobs: %w", err)
	}
	h.closers.Add("agent to jobs", func(context.Context) error { return jobsConn.Close() })
	return &inProcess{
		credentials: authpeerv1.NewCredentialServiceClient(authConn), fleets: jobsv1.NewFleetServiceClient(jobsConn), house: h,
	}, nil
}

// Join implements link.Joiner.
func (j *inProcess) Join(ctx context.Context, req *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	out, err := j.credentials.Authenticate(ctx, &authpeerv1.AuthenticateRequest{ClientAddress: "127.0.0.1", InMaintenance: true})
	if err != nil {
		return nil, fmt.Errorf("ask auth for an identity: %w", err)
	}
	ctx = authn.WithToken(ctx, out.GetCallerToken(), j.house.clock.Now().Add(authn.CallerFormat().Lifetime))
	return link.InMemory{Fleet: j.fleets}.Join(ctx, req)
}
