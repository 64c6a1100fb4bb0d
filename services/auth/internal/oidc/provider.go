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
	// metadataTTL is how long the provider's metadata and keys are used before they are read again.
	metadataTTL = time.Hour
	// failurePause is the minimum time between a failed read of the metadata and the next read.
	failurePause = time.Second
)

// Provider is a client of the OpenID provider. It reads the provider's metadata at a sign-in and not when the service
// starts, so the service starts even if the provider is down. If a read fails, the first sign-in after failurePause
// reads the metadata again.
type Provider struct {
	// ClientSecret returns the secret that an admin set to replace the one in Settings, or zero if none is set. The
	// function may be nil.
	ClientSecret func(ctx context.Context) (secret.String, error)

	settings Settings
	client   *http.Client
	clock    clock.Clock
	// turn guards the fields below. It is a channel so that waiting for it can be canceled.
	turn     chan struct{}
	known    *metadata
	failure  error
	failedAt time.Time
}

// metadata is what the provider publishes about itself.
type metadata struct {
	provider *oidc.Provider
	keys     oidc.KeySet
	endpoint oauth2.Endpoint
	// namesItself is true if every authorization response contains `iss` (RFC 9207).
	namesItself bool
	readAt      time.Time
}

// NewProvider returns a Provider that makes its calls with the given HTTP client. NewProvider itself makes no call.
func NewProvider(s Settings, client *http.Client, clk clock.Clock) *Provider {
	c := *client
	// The endpoints that this client calls must not redirect, so a redirect is an invalid response.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Provider{settings: s, client: &c, clock: clk, turn: make(chan struct{}, 1)}
}

// badProvider returns the error, 502, for a failure of the provider. The cause must not contain text of the provider's
// response, other than error codes and addresses.
func badProvider(cause error, what string) error {
	return fault.New(fault.Dependency, "oidc_provider", "the sign-in provider %s", what).Wrap(cause)
}

// metadata returns the provider's metadata. If no metadata is cached or the cached metadata is older than metadataTTL,
// it reads the metadata again, but not within failurePause after a failed read. If the read fails, it returns the
// cached metadata, if there is any.
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
		// Other callers wait for this read, so it continues if this call is canceled. The client's timeout ends it.
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
	var extra struct {
		JWKS        string   `json:"jwks_uri"`
		Auth        []string `json:"token_endpoint_auth_methods_supported"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := provider.Claims(&extra); err != nil {
		return nil, badProvider(errors.New("a field of the metadata has the wrong type"), "has metadata that cannot be read")
	}
	m := &metadata{
		provider: provider, keys: oidc.NewRemoteKeySet(ctx, extra.JWKS), endpoint: provider.Endpoint(),
		namesItself: extra.NamesItself, readAt: p.clock.Now(),
	}
	m.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(extra.Auth) > 0 && !slices.Contains(extra.Auth, "client_secret_basic") {
		m.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	for _, address := range []string{m.endpoint.AuthURL, m.endpoint.TokenURL, extra.JWKS} {
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
		return badProvider(fmt.Errorf("the metadata contains the issuer %.200q", other.Discovered), "has an issuer in its metadata that differs from SERVICE_OIDC_ISSUER; correct the setting")
	case errors.As(err, &call):
		return badProvider(call, "cannot be reached")
	default:
		return badProvider(errors.New("discovery: no metadata in the response"), "does not return its metadata")
	}
}

// checkEndpoint returns an error for an endpoint that may not be called, and for a plain http endpoint of an https
// provider.
func (p *Provider) checkEndpoint(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("the endpoint %.200q is not a URL", address)
	}
	if err := egress.CheckURL(u); err != nil {
		return fmt.Errorf("the endpoint %.200q: %w", address, err)
	}
	if u.Scheme != "https" && strings.HasPrefix(p.settings.Issuer, "https:") || u.Fragment != "" {
		return fmt.Errorf("the endpoint %.200q must use https and have no fragment", address)
	}
	return nil
}

// config returns the OAuth configuration for one redirect address.
func (p *Provider) config(m *metadata, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.settings.ClientID, ClientSecret: p.settings.ClientSecret.Reveal(), Endpoint: m.endpoint,
		RedirectURL: redirect, Scopes: p.settings.scopes(),
	}
}

// withSecret returns the OAuth configuration with the secret that an admin has set, if any. If the secret changes at
// the provider, an admin can change it here without a restart.
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

// authorizationURL returns the address at the provider to which the browser is sent.
func (p *Provider) authorizationURL(ctx context.Context, t ticket, redirect string) (string, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return "", err
	}
	return p.config(m, redirect).AuthCodeURL(t.state.Reveal(), oidc.Nonce(t.nonce()), oauth2.S256ChallengeOption(t.verifier())), nil
}
