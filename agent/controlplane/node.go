package controlplane

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

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Node is this agent's identity in its fleet.
type Node struct {
	ID string `json:"node_id"`
	// Address is the address of the agent listener, host:port.
	Address   string        `json:"agent_address"`
	Heartbeat time.Duration `json:"heartbeat"`
	dir       string
}

// Load reads the node from a folder. It returns fs.ErrNotExist if the folder contains no node.
func Load(dir string) (Node, error) {
	n := Node{dir: dir}
	err := localfile.ReadJSON(filepath.Join(dir, nodeFile), &n)
	return n, err
}

// Source returns the node's certificate, read from its files.
func (n Node) Source() (pki.Source, error) {
	identity := filepath.Join(n.dir, identityFile)
	return pki.OpenFiles(identity, identity, filepath.Join(n.dir, caFile))
}

// DialTLS returns a function that dials the agent listener with the node's certificate. The function
// returns ErrCertificateExpired if the certificate has expired.
func DialTLS(clk clock.Clock) func(Node) (*grpc.ClientConn, error) {
	return func(n Node) (*grpc.ClientConn, error) {
		if n.Address == "" {
			return nil, fmt.Errorf("node %s has no agent listener address; remove %s and join again", n.ID, n.dir)
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
	// identityFile contains the certificate and its key.
	identityFile = "node.pem"
	caFile       = "ca.pem"
)

// Joiner sends a join request to the control plane. It returns ErrRefused if a retry with
// the same token cannot succeed.
type Joiner interface {
	Join(ctx context.Context, req *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error)
}

// ErrRefused reports that the control plane rejects this agent.
var ErrRefused = errors.New("the fleet rejects this agent")

// ErrRemoved reports that the control plane has removed this node or its whole fleet. Every further request with the
// node's certificate would fail.
var ErrRemoved = errors.New("this node was removed from the control plane")

// codeRemoved is the error code of the control plane for a removed node.
const codeRemoved = "node_removed"

// removedError adds the node and the remedy to ErrRemoved.
func (n Node) removedError() error {
	return fmt.Errorf("%w: node %s; to use this host again, remove %s and start the agent with a new join token "+
		"(signalboxd needs no token)", ErrRemoved, n.ID, n.dir)
}

// ErrJoined reports that the agent is already a node. The join token was not used.
var ErrJoined = errors.New("this agent has joined a fleet already")

// Membership holds what LoadOrJoin and Join need.
type Membership struct {
	// Dir is the folder of the node's key and certificate.
	Dir    string
	Joiner Joiner
	// Token returns the join token; it is called only if Dir contains no node.
	Token     func(ctx context.Context) (secret.String, error)
	Hostname  string
	Inventory *jobsv1.Inventory
	Clock     clock.Clock
	Backoff   clock.Backoff
	Log       *slog.Logger
}

// LoadOrJoin returns this agent's node. If the folder contains no node, it joins the fleet and retries until ctx ends or
// the control plane rejects the agent.
func (m Membership) LoadOrJoin(ctx context.Context) (Node, error) {
	n, err := Load(m.Dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return n, err
	}
	for try := 0; ; try++ {
		n, err := m.join(ctx)
		if err == nil || errors.Is(err, ErrRefused) || ctx.Err() != nil {
			return n, err
		}
		m.Log.WarnContext(ctx, "cannot join the fleet; trying again", "error", err.Error())
		if err := clock.Sleep(ctx, m.Clock, m.Backoff.Wait(try)); err != nil {
			return Node{}, fmt.Errorf("join the fleet: %w", err)
		}
	}
}

// Join joins the fleet with a single request. It returns ErrJoined if Dir contains a node.
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
		return Node{}, fmt.Errorf("get the join token: %w", err)
	}
	key, request, err := pki.NewRequest()
	if err != nil {
		return Node{}, err
	}
	const patience = 30 * time.Second
	requestCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	response, err := m.Joiner.Join(requestCtx, &jobsv1.JoinFleetRequest{
		Token: token.Reveal(), Hostname: m.Hostname, CertificateRequest: string(request), Inventory: m.Inventory,
	})
	if err != nil {
		return Node{}, fmt.Errorf("join the fleet: %w", err)
	}
	n := Node{
		ID: response.GetNodeId(), Address: response.GetAgentAddress(), dir: m.Dir,
		Heartbeat: time.Duration(response.GetHeartbeatS()) * time.Second,
	}
	return n, m.save(n, key, response)
}

// save stores the node. It writes node.json last because Load treats a folder without node.json as empty.
func (m Membership) save(n Node, key []byte, response *jobsv1.JoinFleetResponse) error {
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return fmt.Errorf("create the node's folder: %w", err)
	}
	if err := localfile.Write(filepath.Join(m.Dir, caFile), []byte(response.GetCaCertificate()), localfile.PrivateMode); err != nil {
		return err
	}
	if err := n.writeIdentity([]byte(response.GetCertificate()), key); err != nil {
		return err
	}
	return localfile.WriteJSON(filepath.Join(m.Dir, nodeFile), n, localfile.PrivateMode)
}
