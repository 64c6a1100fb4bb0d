package boot

import (
	"errors"
	"net"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/retention"
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
	Keyring secret.String `env:"SERVICE_KEYRING" doc:"key-encryption keys, one line <id> <base64 of 32 bytes> per key; the first one encrypts, the others only decrypt"`
	Audit   Audit         `env:", prefix=SERVICE_"`
	// EventDays is how long every service keeps the events of its objects.
	EventDays float64 `env:"SERVICE_EVENT_DAYS, default=400" doc:"days until an event of a job, deployment or other object is deleted; 0 keeps it forever"`
	// TaskDays is how long every service keeps the finished entries of its queue.
	TaskDays float64 `env:"SERVICE_TASK_DAYS, default=7" doc:"days until a finished entry of a service's queue of background tasks is deleted; 0 keeps it forever"`
}

// Audit holds the settings with which the audit log is sealed.
type Audit struct {
	Key secret.String `env:"AUDIT_KEY" doc:"seeds of the Ed25519 keys that sign the audit's heads, each the base64 of 32 bytes; the first one signs, the others only verify"`
	Dir string        `env:"AUDIT_DIR" doc:"folder outside the database that stores the signed heads and the journals of revocations"`
	// RevocationDays must cover the oldest backup that may be restored without revoking everything.
	RevocationDays float64 `env:"REVOCATION_DAYS, default=90" doc:"days that the journals of revocations are kept; a backup that is older cannot be restored without revoking everything; 0 keeps them forever"`
}

// ServiceSettings are settings that services have under their own prefix. A process reads only those that it uses.
type ServiceSettings struct {
	// Listen and Postgres are for all processes but those whose Spec has CallsOnly.
	Listen   conf.Listen
	Postgres conf.Postgres
	// Requests is for processes whose Spec has TakesRequests.
	Requests RequestListeners
	// Agents is for processes whose Spec has TakesAgents.
	Agents AgentListener
}

// RequestListeners are where a service accepts HTTP requests itself.
type RequestListeners struct {
	// Relayed is the address for requests that the gateway relays.
	Relayed string `env:"HTTP_LISTEN" doc:"address for requests that the gateway relays"`
	// Public is the address of a second listener, which accepts requests that do not come from the gateway.
	Public string `env:"LISTEN_PUBLIC" doc:"plain HTTP address for a load balancer; off if empty"`
}

// AgentListener is where a service accepts agents.
type AgentListener struct {
	Listen string `env:"AGENT_LISTEN" doc:"address for agents; off if empty"`
	// Address is what agents dial.
	Address string `env:"AGENT_ADDRESS" doc:"host:port at which agents reach the agent listener"`
	CADir   string `env:"CA_DIR" doc:"folder of the internal CA, which signs the certificates of nodes"`
}

// parts returns the parts of the settings that a process with the spec uses.
func (s *ServiceSettings) parts(spec Spec) []conf.Part {
	prefix := "SERVICE_" + strings.ToUpper(spec.Name) + "_"
	var parts []conf.Part
	if !spec.CallsOnly {
		parts = append(parts, conf.Part{Prefix: prefix, Config: &s.Listen}, conf.Part{Prefix: prefix, Config: &s.Postgres})
	}
	if spec.TakesRequests {
		parts = append(parts, conf.Part{Prefix: prefix, Config: &s.Requests})
	}
	if spec.TakesAgents {
		parts = append(parts, conf.Part{Prefix: prefix, Config: &s.Agents})
	}
	return parts
}

// Validate rejects an invalid SERVICE_PEERS and invalid ages. conf.Load calls it.
func (s *Settings) Validate() error {
	_, err := s.addresses()
	return errors.Join(err, retention.CheckDays("SERVICE_EVENT_DAYS", s.EventDays), retention.CheckDays("SERVICE_TASK_DAYS", s.TaskDays),
		retention.CheckDays("SERVICE_REVOCATION_DAYS", s.Audit.RevocationDays))
}

// Ages returns the ages of the rows that every service has.
func (s *Settings) Ages() Ages {
	return Ages{Event: retention.Days(s.EventDays), Task: retention.Days(s.TaskDays)}
}

// addresses returns the address of each service in SERVICE_PEERS.
func (s *Settings) addresses() (map[string]string, error) {
	peers := map[string]string{}
	for pair := range strings.SplitSeq(s.Peers, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, addr, ok := strings.Cut(pair, "=")
		if _, _, err := net.SplitHostPort(addr); !ok || name == "" || err != nil {
			return nil, conf.Errorf("SERVICE_PEERS", "must have entries of the form name=host:port, got %q", pair)
		}
		if _, twice := peers[name]; twice {
			return nil, conf.Errorf("SERVICE_PEERS", "service %s appears twice", name)
		}
		peers[name] = addr
	}
	return peers, nil
}
