package boot

import (
	"net"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Settings are what every process of an installation shares.
type Settings struct {
	Obs    conf.Obs    `env:", prefix=SERVICE_"`
	Stop   conf.Stop   `env:", prefix=SERVICE_"`
	Public conf.Public `env:", prefix=SERVICE_"`
	TLS    conf.TLS    `env:", prefix=SERVICE_"`
	Blob   conf.Blob   `env:", prefix=SERVICE_"`
	// Peers is parsed by addresses.
	Peers   string        `env:"SERVICE_PEERS" doc:"addresses of the services, as auth=host:port,jobs=host:port,..."`
	Keyring secret.String `env:"SERVICE_KEYRING" doc:"key-encryption keys, a line <id> <base64 of 32 bytes> each, the sealing one first"`
	Audit   Audit         `env:", prefix=SERVICE_"`
}

// Audit is how the record of changes is sealed.
type Audit struct {
	Key secret.String `env:"AUDIT_KEY" doc:"seeds of the Ed25519 keys of the audit's heads, base64 of 32 bytes each, the signing one first, then those whose signatures still count"`
	Dir string        `env:"AUDIT_DIR" doc:"folder outside the database that keeps the signed heads"`
}

// ServiceSettings are what each service has for itself, under its own prefix.
type ServiceSettings struct {
	Listen   conf.Listen
	Postgres conf.Postgres
	// HTTPListen is where ingest and inference take the bytes that the gateway relays.
	HTTPListen string `env:"HTTP_LISTEN" doc:"ingest and inference: address for the gateway's relayed requests"`
	// PublicListen is decisions.md's second, public listener of ingest and inference.
	PublicListen string `env:"LISTEN_PUBLIC" doc:"ingest and inference: plain HTTP address for a balancer; off where empty"`
	// AgentListen is where jobs takes agents.
	AgentListen string `env:"AGENT_LISTEN" doc:"jobs: address for agents"`
	// AgentAddress is what agents are told to dial.
	AgentAddress string `env:"AGENT_ADDRESS" doc:"jobs: host:port under which agents reach the agent listener"`
	CADir        string `env:"CA_DIR" doc:"jobs: folder of the internal authority, which signs the certificates of nodes"`
}

// Validate implements the check of conf.Load.
func (s *Settings) Validate() error {
	_, err := s.addresses()
	return err
}

// addresses reads SERVICE_PEERS.
func (s *Settings) addresses() (map[string]string, error) {
	peers := map[string]string{}
	for pair := range strings.SplitSeq(s.Peers, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, addr, ok := strings.Cut(pair, "=")
		if _, _, err := net.SplitHostPort(addr); !ok || name == "" || err != nil {
			return nil, conf.Faultf("SERVICE_PEERS", "want name=host:port, got %q", pair)
		}
		if _, twice := peers[name]; twice {
			return nil, conf.Faultf("SERVICE_PEERS", "%s is given twice", name)
		}
		peers[name] = addr
	}
	return peers, nil
}
