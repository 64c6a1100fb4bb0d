package allinone

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/agent/controlplane"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
	pysdk "github.com/signalbox-dev/signalbox/sdk/python"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

// The fleet of the agent in this process, and the fleet's pool.
const (
	localFleet = "local"
	localPool  = "default"
)

// agent returns the settings of the agent in this process, which uses the process's data folder.
func (s *Settings) agent(data string) agent.Config {
	cfg := s.Agent
	cfg.Data, cfg.Private = filepath.Join(data, "agent"), []string{data}
	cfg.RunsOn, cfg.SlurmFolder = "", "" // this agent runs works on its host
	if s.Common.Audit.Dir != "" {
		cfg.Private = append(cfg.Private, s.Common.Audit.Dir)
	}
	return cfg
}

// agent creates the embedded agent, which joins its fleet like any other agent, but reaches jobs in memory instead of
// over the network.
func (d *daemon) agent(p *parts) (process.Worker, error) {
	cfg := d.settings.agent(d.folder.path)
	cfg.Exec, cfg.Environ, cfg.Version = d.options.Exec, os.Environ(), version.Server()
	if cfg.Hostname == "" {
		var err error
		if cfg.Hostname, err = os.Hostname(); err != nil {
			return process.Worker{}, fmt.Errorf("find the host name: %w", err)
		}
	}
	if blobs := d.settings.Common.Blob; blobs.Driver == conf.BlobS3 {
		// Works use signed URLs of the object store, which may be on this machine.
		cfg.WorkReach = strings.TrimPrefix(cfg.WorkReach+","+storeAddress(blobs.S3), ",")
	}
	cfg.WorkAvoid = strings.TrimPrefix(cfg.WorkAvoid+","+strings.Join(d.avoided(), ","), ",")
	cfg.KeptPorts = strings.TrimPrefix(cfg.KeptPorts+","+strings.Join(d.ports(), ","), ",")
	sdk, err := pysdk.Files()
	if err != nil {
		return process.Worker{}, fmt.Errorf("open the Python reporter: %w", err)
	}
	joiner, err := d.joiner()
	if err != nil {
		return process.Worker{}, err
	}
	a, err := agent.New(cfg, agent.Deps{
		Joiner: joiner,
		Token: func(ctx context.Context) (secret.String, error) {
			return p.jobs.JoinLocal(ctx, localFleet, []string{localPool})
		},
		Dial: func(n controlplane.Node) (*grpc.ClientConn, error) {
			name, err := pki.NodeName(n.ID)
			if err != nil {
				return nil, err
			}
			return d.bus.As(name).Dial(jobs.Name)
		},
		SDK: sdk, Clock: d.clock, Rand: rand.Reader, Jitter: mathrand.Float64, Log: d.obs.Logger("agent"), Meter: d.obs.Meter,
	})
	if err != nil {
		return process.Worker{}, err
	}
	d.closers.Add("agent", func(context.Context) error { return a.Close() })
	return d.whileNode(a.Worker(endsWorks)), nil
}

// ports returns the ports on which this process and its database listen. Works must not listen on them, even while this
// process is being restarted.
func (d *daemon) ports() []string {
	addresses := []net.Addr{d.listener.Addr()}
	if d.agents != nil {
		addresses = append(addresses, d.agents.Addr())
	}
	var all []string
	for _, a := range addresses {
		if tcp, ok := a.(*net.TCPAddr); ok {
			all = append(all, strconv.Itoa(tcp.Port))
		}
	}
	admin := d.settings.Postgres.AdminURL
	if d.postgres != nil {
		admin = d.postgres.AdminURL()
	}
	if u, err := url.Parse(admin.Reveal()); err == nil && loopback(net.JoinHostPort(u.Hostname(), "")) {
		all = append(all, cmp.Or(u.Port(), defaultPostgres))
	}
	return all
}

// The ports of URLs that name no port.
const (
	defaultPostgres = "5432"
	defaultRedis    = "6379"
)

// avoided returns the addresses of the database and Redis servers on other hosts. Works must not reach them. Servers on
// this host need no entry, because works reach nothing on the host but the public listener.
func (d *daemon) avoided() []string {
	var all []string
	add := func(text, port string) {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || loopback(net.JoinHostPort(u.Hostname(), "")) {
			return
		}
		all = append(all, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	}
	if d.postgres == nil {
		add(d.settings.Postgres.AdminURL.Reveal(), defaultPostgres)
	}
	add(d.settings.Ingest.RedisURL.Reveal(), defaultRedis)
	return all
}

// storeAddress returns the host and port of an S3 server.
func storeAddress(c conf.S3) string {
	if _, _, err := net.SplitHostPort(c.Endpoint); err == nil {
		return c.Endpoint
	}
	if c.Plaintext {
		return net.JoinHostPort(c.Endpoint, "80")
	}
	return net.JoinHostPort(c.Endpoint, "443")
}

// whileNode changes the agent's worker: after an admin has removed the agent's node, the worker does not fail but waits
// until the process ends. So the other parts of the process continue.
func (d *daemon) whileNode(w process.Worker) process.Worker {
	run := w.Run
	w.Run = func(ctx context.Context) error {
		err := run(ctx)
		if !errors.Is(err, controlplane.ErrRemoved) {
			return err
		}
		d.obs.Logger("agent").ErrorContext(ctx, "the embedded agent has ended: its node was removed; to use this host again, "+
			"stop signalboxd, remove the folder agent/node of its data folder, and start signalboxd", "error", err.Error())
		<-ctx.Done()
		return nil
	}
	return w
}

// endsWorks reports whether the stop with this context ends attempts and engines. Only Ctrl-C (SIGINT) does. After
// SIGTERM, which a service manager sends, and after a failure of a part, such as the database, they continue under
// their shims, and the next start adopts them.
func endsWorks(ctx context.Context) bool { return process.StopSignal(ctx) == os.Interrupt }

// inProcess joins the fleet over the in-memory network. It sends what the gateway would send for a request without
// credentials.
type inProcess struct {
	credentials authpeerv1.CredentialServiceClient
	fleets      jobsv1.FleetServiceClient
	daemon      *daemon
}

func (d *daemon) joiner() (controlplane.Joiner, error) {
	gateway := d.bus.As("gateway")
	authConn, err := gateway.Dial(auth.Name)
	if err != nil {
		return nil, fmt.Errorf("dial auth: %w", err)
	}
	d.closers.Add("agent to auth", func(context.Context) error { return authConn.Close() })
	jobsConn, err := gateway.Dial(jobs.Name)
	if err != nil {
		return nil, fmt.Errorf("dial jobs: %w", err)
	}
	d.closers.Add("agent to jobs", func(context.Context) error { return jobsConn.Close() })
	return &inProcess{
		credentials: authpeerv1.NewCredentialServiceClient(authConn), fleets: jobsv1.NewFleetServiceClient(jobsConn), daemon: d,
	}, nil
}

// Join implements controlplane.Joiner.
func (j *inProcess) Join(ctx context.Context, req *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	out, err := j.credentials.Authenticate(ctx, &authpeerv1.AuthenticateRequest{ClientAddress: "127.0.0.1", InMaintenance: true})
	if err != nil {
		return nil, fmt.Errorf("get an identity from auth: %w", err)
	}
	ctx = authn.WithToken(ctx, out.GetCallerToken(), j.daemon.clock.Now().Add(authn.CallerFormat().Lifetime))
	return controlplane.InMemory{Fleet: j.fleets}.Join(ctx, req)
}
