package jobs

import (
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
)

// Name is the service's name, which is also the name of its database schema, of its identity and of its group of
// settings.
const Name = "jobs"

// NodeCA signs the certificates of nodes with the internal CA.
type NodeCA interface {
	SignNode(requestPEM []byte, nodeID string) (certPEM, caPEM []byte, err error)
}

// Deps are the service's dependencies.
type Deps struct {
	Pool     *pgxpool.Pool
	Projects authpeerv1.ProjectServiceClient
	Accounts authpeerv1.AccountPeerServiceClient
	Catalog  registrypeerv1.CatalogPeerServiceClient
	RunData  ingestpeerv1.RunDataPeerServiceClient
	Blobs    assignment.Signer // a blob.Store
	CA       NodeCA
	// Keyring encrypts the engines' API keys at rest.
	Keyring *secret.Keyring
	Clock   clock.Clock
	IDs     *id.Source
	Rand    io.Reader
	Log     *slog.Logger
	Meter   metric.MeterProvider // may be nil
	// PublicURL is the address at which users and training processes reach the platform. AgentAddress is the host:port
	// of the agents' listener; it is empty if only an agent in this process can connect. Both are functions, because
	// the addresses are known only after the listeners are open.
	PublicURL    func() string
	AgentAddress func() string
}
