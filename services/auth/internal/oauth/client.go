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

// Client is a program that requests tokens.
type Client struct {
	ID   string
	Name string
	// Redirects are the addresses to which codes for the client may be sent; empty if the client may not use codes.
	Redirects []string
	// Device is true if the client uses the device flow and gets tokens of the API.
	Device bool
}

// errNoClient means that the client is not registered.
var errNoClient = errors.New("no such client")

// Clients stores the registered clients.
type Clients struct {
	Pool  *pgxpool.Pool
	Clock clock.Clock
}

// Register stores a client or replaces it. No route calls it, so that only the installation itself can add clients.
func (c *Clients) Register(ctx context.Context, client Client) error {
	if client.ID == device.ClientID || client.Device {
		return errors.New("register a client: only the built-in client may use the device flow")
	}
	if client.ID == "" || client.Name == "" || len(client.Redirects) == 0 {
		return errors.New("register a client: an id, a name and a redirect address are required")
	}
	for _, r := range client.Redirects {
		if err := checkRedirect(r); err != nil {
			return fmt.Errorf("register client %s: %w", client.ID, err)
		}
	}
	return upsertClient(ctx, c.Pool, client, c.Clock.Now())
}

// find returns a client, or errNoClient.
func (c *Clients) find(ctx context.Context, id string) (Client, error) {
	if id == device.ClientID {
		return Client{ID: device.ClientID, Name: device.ClientName, Device: true}, nil
	}
	if strings.ContainsRune(id, 0) { // Postgres rejects zero bytes
		return Client{}, errNoClient
	}
	return loadClient(ctx, c.Pool, id)
}

// identified returns the client with the client_id of a form, or an invalid_client error.
func (c *Clients) identified(ctx context.Context, form map[string]string) (Client, error) {
	client, err := c.find(ctx, form["client_id"])
	if errors.Is(err, errNoClient) {
		return Client{}, refused(wordClient, "client_id is unknown")
	}
	return client, err
}
