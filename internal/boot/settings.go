package boot

import (
	"net"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Settings are the settings that all processes of an installation share.
type Settings struct {
	Obs    conf.Obs    `env:", prefix=SERVICE_"`
	Stop   conf.Stop   `env:", prefix=SERVICE_"`
	Public conf.Public `env:", prefix=SERVICE_"`
	TLS    conf.TLS    `env:", prefix=SERVICE_"`
	Blob   conf.Blob   `env:", prefix=SERVICE_"`
	// Peers maps services to addresses; the method addresses parses it.
	Peers   string        `env:"SERVICE_PEERS" doc:"addresses of the services, as auth=host:port,jobs=host:port,..."`
	Keyring secret.String `env:"SERVICE_KEYRING" doc:"key-encryption keys, one line <id> <base64 of 32 bytes> per key; the first one encrypts"`
	Audit   Audit         `env:", prefix=SERVICE_"`
	// EventDays is how long every service keeps the events of its objects.
	EventDays int `env:"SERVICE_EVENT_DAYS, default=400" doc:"days until an event of a job, deployment or other object is deleted; 0 keeps it"`
}

// Audit holds the settings with which the audit log is sealed.
type Audit struct {
	Key secret.String `env:"AUDIT_KEY" doc:"seeds of the Ed25519 keys that sign the audit's heads, each the base64 of 32 bytes; the first one signs, the others only verify"`
	Dir string        `env:"AUDIT_DIR" doc:"folder outside the database that stores the signed heads"`
}

// ServiceSettings are the settings that each service has under its own prefix.
type ServiceSettings struct {
	Listen   conf.Listen
	Postgres conf.Postgres
	// HTTPListen is the address on which ingest and inference accept the requests that the gateway relays.
	HTTPListen string `env:"HTTP_LISTEN" doc:"ingest and inference: address for the gateway's relayed requests"`
	// PublicListen is the address of the second, public listener of ingest and inference; see decisions.md.
	PublicListen string `env:"LISTEN_PUBLIC" doc:"ingest and inference: plain HTTP address for a balancer; off if empty"`
	// AgentListen is the address on which jobs accepts agents.
	AgentListen string `env:"AGENT_LISTEN" doc:"jobs: address for agents"`
	// AgentAddress is the address that agents dial.
	AgentAddress string `env:"AGENT_ADDRESS" doc:"jobs: host:port at which agents reach the agent listener"`
	CADir        string `env:"CA_DIR" doc:"jobs: folder of the internal CA, which signs the certificates of nodes"`
}

// Validate rejects an invalid SERVICE_PEERS or SERVICE_EVENT_DAYS. conf.Load calls it.
func (s *Settings) Validate() error {
	if s.EventDays < 0 {
		return conf.Errorf("SERVICE_EVENT_DAYS", "must not be negative")
	}
	_, err := s.addresses()
	return err
}

// EventAge is EventDays as a duration.
func (s *Settings) EventAge() time.Duration { return time.Duration(s.EventDays) * 24 * time.Hour }

// addresses returns the address of each service in SERVICE_PEERS.
func (s *Settings) addresses() (map[string]string, error) {
	peers := map[string]string{}
	for pair := range strings.SplitSeq(s.Peers, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, addr, ok := strings.Cut(pair, "=")
		if _, _, err := net.SplitHostPort(addr); !ok || name == "" || err != nil {
			return nil, conf.Errorf("SERVICE_PEERS", "want name=host:port, got %q", pair)
		}
		if _, twice := peers[name]; twice {
			return nil, conf.Errorf("SERVICE_PEERS", "service %s appears twice", name)
		}
		peers[name] = addr
	}
	return peers, nil
}
