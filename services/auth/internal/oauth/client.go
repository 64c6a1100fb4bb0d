package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/auth/internal/device"
)

// Client is a program that asks for tokens.
type Client struct {
	ID   string
	Name string
	// Redirects are where its codes may go; none for a client that has no codes.
	Redirects []string
	// Device says that it signs in by the device flow, and has tokens of the API.
	Device bool
}

// errNoClient says that nobody registered such a client.
var errNoClient = errors.New("no such client")

// Clients knows the clients.
type Clients struct {
	Pool  *pgxpool.Pool
	Clock clock.Clock
}

// Register writes a client, or what it is now. There is no route to it: whoever may call it is part of the
// installation.
func (c *Clients) Register(ctx context.Context, client Client) error {
	if client.ID == device.ClientID || client.Device {
		return errors.New("register a client: the device flow is of the built-in one")
	}
	if client.ID == "" || client.Name == "" || len(client.Redirects) == 0 {
		return errors.New("register a client: it needs an id, a name and a redirect address")
	}
	for _, r := range client.Redirects {
		if err := checkRedirect(r); err != nil {
			return fmt.Errorf("register client %s: %w", client.ID, err)
		}
	}
	return upsertClient(ctx, c.Pool, client, c.Clock.Now())
}

// find answers a client, or errNoClient.
func (c *Clients) find(ctx context.Context, id string) (Client, error) {
	if id == device.ClientID {
		return Client{ID: device.ClientID, Name: device.ClientName, Device: true}, nil
	}
	if strings.ContainsRune(id, 0) { // which Postgres refuses to look for
		return Client{}, errNoClient
	}
	return loadClient(ctx, c.Pool, id)
}

// identified is the client that a form names.
func (c *Clients) identified(ctx context.Context, form map[string]string) (Client, error) {
	client, err := c.find(ctx, form["client_id"])
	if errors.Is(err, errNoClient) {
		return Client{}, refused(wordClient, "client_id names no client")
	}
	return client, err
}
