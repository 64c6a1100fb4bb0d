package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/egress"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// metadataTTL is how long the provider's metadata and keys serve before they are read again.
	metadataTTL = time.Hour
	// failurePause is how long a failed read of the metadata answers for those who come next.
	failurePause = time.Second
)

// Provider knows the OpenID provider. It reads the provider's metadata when somebody signs in, so a provider
// that is down keeps nothing from starting, and it tries again at the next sign-in.
type Provider struct {
	// ClientSecret answers the secret that an admin set in the place of the settings', zero where there is
	// none; it may be nil.
	ClientSecret func(ctx context.Context) (secret.String, error)

	settings Settings
	client   *http.Client
	clock    clock.Clock
	// turn is held by whoever reads or writes what follows.
	turn     chan struct{}
	known    *metadata
	failure  error
	failedAt time.Time
}

// metadata is what the provider says of itself.
type metadata struct {
	provider *oidc.Provider
	keys     oidc.KeySet
	endpoint oauth2.Endpoint
	// namesItself says that each answer carries `iss` (RFC 9207).
	namesItself bool
	readAt      time.Time
}

// NewProvider takes the client that calls the provider; it calls nobody yet.
func NewProvider(s Settings, client *http.Client, clk clock.Clock) *Provider {
	c := *client
	// No endpoint of OpenID redirects a server: an answer that does is no answer.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Provider{settings: s, client: &c, clock: clk, turn: make(chan struct{}, 1)}
}

// badProvider is every failure that is the provider's: 502. The cause is ours; nothing of the answer is in it.
func badProvider(cause error, what string) error {
	return fault.New(fault.Dependency, "oidc_provider", "The sign-in provider %s", what).Wrap(cause)
}

// metadata answers what is known of the provider, and reads it where that is nothing or too old. Old metadata
// serves on where it cannot be read again.
func (p *Provider) metadata(ctx context.Context) (*metadata, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the provider's metadata: %w", ctx.Err())
	}
	now := p.clock.Now()
	if p.known != nil && now.Sub(p.known.readAt) < metadataTTL {
		return p.known, nil
	}
	if p.failure == nil || now.Sub(p.failedAt) >= failurePause {
		// For all who wait, so the end of the first one's call does not end it; the client's time does.
		m, err := p.discover(context.WithoutCancel(ctx))
		if err == nil {
			p.known, p.failure = m, nil
			return m, nil
		}
		p.failure, p.failedAt = err, now
	}
	if p.known != nil {
		return p.known, nil
	}
	return nil, p.failure
}

func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	provider, err := oidc.NewProvider(ctx, p.settings.Issuer)
	if err != nil {
		return nil, discoveryFault(err)
	}
	var said struct {
		JWKS        string   `json:"jwks_uri"`
		Auth        []string `json:"token_endpoint_auth_methods_supported"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := provider.Claims(&said); err != nil {
		return nil, badProvider(errors.New("metadata of a wrong type"), "has metadata that cannot be read")
	}
	m := &metadata{
		provider: provider, keys: oidc.NewRemoteKeySet(ctx, said.JWKS), endpoint: provider.Endpoint(),
		namesItself: said.NamesItself, readAt: p.clock.Now(),
	}
	m.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(said.Auth) > 0 && !slices.Contains(said.Auth, "client_secret_basic") {
		m.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	for _, address := range []string{m.endpoint.AuthURL, m.endpoint.TokenURL, said.JWKS} {
		if err := p.checkEndpoint(address); err != nil {
			return nil, badProvider(err, "has metadata that cannot be used")
		}
	}
	if address := provider.UserInfoEndpoint(); address != "" {
		if err := p.checkEndpoint(address); err != nil {
			return nil, badProvider(err, "has metadata that cannot be used")
		}
	}
	return m, nil
}

func discoveryFault(err error) error {
	var other *oidc.IssuerMismatchError
	var call *url.Error
	switch {
	case errors.As(err, &other):
		return badProvider(fmt.Errorf("its metadata is of the issuer %.200q", other.Discovered), "names another issuer than the configured one")
	case errors.As(err, &call):
		return badProvider(call, "cannot be reached")
	default:
		return badProvider(errors.New("discovery: no metadata in the answer"), "does not answer with its metadata")
	}
}

// checkEndpoint keeps a provider of https from naming plain http.
func (p *Provider) checkEndpoint(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("the endpoint %.200q is no address", address)
	}
	if err := egress.CheckURL(u); err != nil {
		return fmt.Errorf("the endpoint %.200q: %w", address, err)
	}
	if u.Scheme != "https" && strings.HasPrefix(p.settings.Issuer, "https:") || u.Fragment != "" {
		return fmt.Errorf("the endpoint %.200q is not of https", address)
	}
	return nil
}

// config is the client of the metadata for one redirect address.
func (p *Provider) config(m *metadata, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.settings.ClientID, ClientSecret: p.settings.ClientSecret.Reveal(), Endpoint: m.endpoint,
		RedirectURL: redirect, Scopes: p.settings.scopes(),
	}
}

// withSecret is config with the secret in force: one that changed at the provider is changed here without a
// restart.
func (p *Provider) withSecret(ctx context.Context, m *metadata, redirect string) (*oauth2.Config, error) {
	c := p.config(m, redirect)
	if p.ClientSecret == nil {
		return c, nil
	}
	own, err := p.ClientSecret(ctx)
	if err == nil && !own.IsZero() {
		c.ClientSecret = own.Reveal()
	}
	return c, err
}

// authorizationURL is where the browser goes.
func (p *Provider) authorizationURL(ctx context.Context, t ticket, redirect string) (string, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return "", err
	}
	return p.config(m, redirect).AuthCodeURL(t.state.Reveal(), oidc.Nonce(t.nonce()), oauth2.S256ChallengeOption(t.verifier())), nil
}
