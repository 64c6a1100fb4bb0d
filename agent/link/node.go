package link

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent/backoff"
	"github.com/signalbox-dev/signalbox/agent/host/files"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Node is who this agent is in its fleet.
type Node struct {
	ID string `json:"node_id"`
	// Address is the agent listener's, host:port.
	Address   string        `json:"agent_address"`
	Heartbeat time.Duration `json:"heartbeat"`
	dir       string
}

// Load reads the node that a folder holds; fs.ErrNotExist where it holds none yet.
func Load(dir string) (Node, error) {
	n := Node{dir: dir}
	err := files.ReadJSON(filepath.Join(dir, nodeFile), &n)
	return n, err
}

// Source is the node's certificate, read from its files.
func (n Node) Source() (pki.Source, error) {
	identity := filepath.Join(n.dir, identityFile)
	return pki.OpenFiles(identity, identity, filepath.Join(n.dir, caFile))
}

// DialTLS dials the agent listener with the node's certificate; ErrEnded where
// nobody would take that any more.
func DialTLS(clk clock.Clock) func(Node) (*grpc.ClientConn, error) {
	return func(n Node) (*grpc.ClientConn, error) {
		if n.Address == "" {
			return nil, fmt.Errorf("node %s was told no address to dial when it joined: remove %s and join again", n.ID, n.dir)
		}
		identity, err := n.Source()
		if err != nil {
			return nil, fmt.Errorf("read the node's certificate: %w", err)
		}
		if end := identity.Current().NotAfter; !clk.Now().Before(end) {
			return nil, n.endedError(end)
		}
		const service = "jobs"
		wire, err := rpc.TCP(rpc.TCPConfig{
			Identity: identity, Peers: map[string]string{service: n.Address}, Client: rpc.ClientOptions{Clock: clk},
		})
		if err != nil {
			return nil, err
		}
		return wire.Dial(service)
	}
}

const (
	nodeFile = "node.json"
	// identityFile holds the certificate and its key.
	identityFile = "node.pem"
	caFile       = "ca.pem"
)

// Joiner asks the control plane for a node. ErrRefused tells that asking again
// with the same token is in vain.
type Joiner interface {
	Join(ctx context.Context, req *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error)
}

// ErrRefused tells that the control plane does not take this agent.
var ErrRefused = errors.New("the fleet refuses this agent")

// ErrJoined tells that there is a node already, for which no token is spent.
var ErrJoined = errors.New("this agent has joined a fleet already")

// Membership is what Enter and Join need.
type Membership struct {
	// Dir keeps the node's key and certificate.
	Dir    string
	Joiner Joiner
	// Token answers the join token; it is asked only where Dir holds no node.
	Token     func(ctx context.Context) (secret.String, error)
	Hostname  string
	Inventory *jobsv1.Inventory
	Clock     clock.Clock
	Backoff   backoff.Policy
	Log       *slog.Logger
}

// Enter answers the node that this agent is, joining the fleet where it is none
// yet. It tries until ctx ends, unless it is refused.
func (m Membership) Enter(ctx context.Context) (Node, error) {
	n, err := Load(m.Dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return n, err
	}
	for try := 0; ; try++ {
		n, err := m.join(ctx)
		if err == nil || errors.Is(err, ErrRefused) || ctx.Err() != nil {
			return n, err
		}
		m.Log.WarnContext(ctx, "fleet not joined yet", "error", err.Error())
		if err := clock.Sleep(ctx, m.Clock, m.Backoff.Wait(try)); err != nil {
			return Node{}, fmt.Errorf("join the fleet: %w", err)
		}
	}
}

// Join joins the fleet, asking once; ErrJoined where Dir holds a node.
func (m Membership) Join(ctx context.Context) (Node, error) {
	switch n, err := Load(m.Dir); {
	case err == nil:
		return n, fmt.Errorf("%w: it is node %s; to join another fleet, remove %s first", ErrJoined, n.ID, m.Dir)
	case !errors.Is(err, fs.ErrNotExist):
		return n, err
	}
	return m.join(ctx)
}

func (m Membership) join(ctx context.Context) (Node, error) {
	token, err := m.Token(ctx)
	if err != nil {
		return Node{}, fmt.Errorf("join token: %w", err)
	}
	key, request, err := pki.NewRequest()
	if err != nil {
		return Node{}, err
	}
	const patience = 30 * time.Second
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := m.Joiner.Join(asking, &jobsv1.JoinFleetRequest{
		Token: token.Reveal(), Hostname: m.Hostname, CertificateRequest: string(request), Inventory: m.Inventory,
	})
	if err != nil {
		return Node{}, fmt.Errorf("join the fleet: %w", err)
	}
	n := Node{
		ID: answer.GetNodeId(), Address: answer.GetAgentAddress(), dir: m.Dir,
		Heartbeat: time.Duration(answer.GetHeartbeatS()) * time.Second,
	}
	return n, m.save(n, key, answer)
}

// save keeps the node; node.json comes last, for it is what Enter looks for.
func (m Membership) save(n Node, key []byte, answer *jobsv1.JoinFleetResponse) error {
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return fmt.Errorf("make the node's folder: %w", err)
	}
	if err := files.Write(filepath.Join(m.Dir, caFile), []byte(answer.GetCaCertificate()), files.Private); err != nil {
		return err
	}
	if err := n.writeIdentity([]byte(answer.GetCertificate()), key); err != nil {
		return err
	}
	return files.WriteJSON(filepath.Join(m.Dir, nodeFile), n, files.Private)
}
