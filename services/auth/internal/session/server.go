package session

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

const (
	// The gateway passes the value of the refresh cookie in metadataRefresh, and sets the cookie that it receives in
	// metadataSetCookie. The refresh token is never in a body.
	metadataRefresh   = "x-service-refresh"
	metadataSetCookie = "x-service-set-cookie"
)

// Server implements AuthService.
type Server struct {
	authv1.UnimplementedAuthServiceServer

	Sessions *Sessions
	// Accounts reads the accounts of GetMe; account.NewLoader returns it.
	Accounts *pg.Loader[string, account.WithTeams]
	Quota    jobspeerv1.QuotaPeerServiceClient
	// PublicURL returns the installation's address. If it is https, the cookie has the __Host- prefix.
	PublicURL func() string
	Methods   Methods
}

// Methods are the sign-in methods of this installation.
type Methods struct {
	// OIDC is the provider with which users sign in, or nil if they use passwords.
	OIDC *Provider
	// DeviceFlow is true if command-line clients may sign in through the user's browser.
	DeviceFlow bool
}

// Provider is the public description of an OpenID provider.
type Provider struct{ Issuer, Name string }

// password returns an error if sign-in by password is off. The error is not a permission error, because the
// installation lacks the feature.
func (m Methods) password() error {
	if m.OIDC == nil {
		return nil
	}
	return fault.New(fault.Unconfigured, "password_login_off", "password login is off; sign in with %s", m.OIDC.Name)
}

// Login implements AuthService.
func (s *Server) Login(ctx context.Context, in *authv1.LoginRequest) (*authv1.LoginResponse, error) {
	if err := s.Methods.password(); err != nil {
		return nil, err
	}
	t, err := s.Sessions.Login(ctx, in.GetUsername(), secret.New(in.GetPassword()), authn.CallerOf(ctx).ClientAddr)
	if err != nil {
		return nil, err
	}
	return s.respond(ctx, t)
}

// UseLink implements AuthService.
func (s *Server) UseLink(ctx context.Context, in *authv1.UseLinkRequest) (*authv1.LoginResponse, error) {
	if err := s.Methods.password(); err != nil {
		return nil, err
	}
	t, err := s.Sessions.UseLink(ctx, in.GetLink(), authn.CallerOf(ctx).ClientAddr)
	if err != nil {
		return nil, err
	}
	return s.respond(ctx, t)
}

// Refresh implements AuthService.
func (s *Server) Refresh(ctx context.Context, _ *authv1.RefreshRequest) (*authv1.LoginResponse, error) {
	values := metadata.ValueFromIncomingContext(ctx, metadataRefresh)
	if len(values) != 1 {
		return nil, badRefresh()
	}
	t, err := s.Sessions.Refresh(ctx, values[0], authn.CallerOf(ctx).ClientAddr)
	if err != nil {
		return nil, err
	}
	return s.respond(ctx, t)
}

// respond sends the refresh token in the cookie and the other values in the body.
func (s *Server) respond(ctx context.Context, t Tokens) (*authv1.LoginResponse, error) {
	if !t.Refresh.IsZero() {
		if err := s.setCookie(ctx, t.Refresh.Reveal(), RefreshTTL); err != nil {
			return nil, err
		}
	}
	return &authv1.LoginResponse{
		Token: t.Access.Reveal(), User: &authv1.LoginUser{Username: t.Username, Role: t.Role},
	}, nil
}

// Logout implements AuthService.
func (s *Server) Logout(ctx context.Context, _ *authv1.LogoutRequest) (*emptypb.Empty, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	if err := s.Sessions.Logout(ctx, c); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.setCookie(ctx, "", -time.Second)
}

// SetRefreshCookie sets the refresh cookie of a session that was opened by another server, such as the OIDC sign-in.
func (s *Server) SetRefreshCookie(ctx context.Context, refresh secret.String) error {
	return s.setCookie(ctx, refresh.Reveal(), RefreshTTL)
}

// setCookie sets the refresh cookie; a negative age deletes it. The __Host- prefix ties the cookie to this exact host
// and requires https.
func (s *Server) setCookie(ctx context.Context, value string, age time.Duration) error {
	c := http.Cookie{ //nolint:gosec // Secure is set for https; http is for use on one machine.
		Name: "service_refresh", Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(age.Seconds()),
	}
	if strings.HasPrefix(s.PublicURL(), "https://") {
		c.Name, c.Secure = "__Host-"+c.Name, true
	}
	if err := grpc.SetHeader(ctx, metadata.Pairs(metadataSetCookie, c.String())); err != nil {
		return fmt.Errorf("set the refresh cookie: %w", err)
	}
	return nil
}

// GetMe implements AuthService.
func (s *Server) GetMe(ctx context.Context, _ *authv1.GetMeRequest) (*authv1.Me, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	a, ok, err := s.Accounts.Get(ctx, c.Subject)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, account.ErrUnknown
	}
	quota, err := s.quota(ctx, c.Subject)
	return &authv1.Me{Username: a.Username, Role: a.Role, Email: a.Email, Teams: a.Teams, Quota: quota}, err
}

// quotaTime is how long GetMe waits for the quota.
const quotaTime = 2 * time.Second

// quota returns the quota of an account, or nil if the jobs service is unavailable, because GetMe must work without
// that service.
func (s *Server) quota(ctx context.Context, accountID string) (*authv1.Quota, error) {
	ctx, cancel := context.WithTimeout(ctx, quotaTime)
	defer cancel()
	q, err := s.Quota.GetAccountQuota(ctx, &jobspeerv1.GetAccountQuotaRequest{UserId: accountID})
	switch {
	case fault.Is(err, fault.Unavailable):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get the quota from jobs: %w", err)
	}
	return &authv1.Quota{
		GpuLimit: q.GetGpuLimit(), GpuHeld: q.GetGpuHeld(), GpuQueued: q.GetGpuQueued(), GpuAvailable: q.GetGpuAvailable(),
	}, nil
}

// GetConfig implements AuthService.
func (s *Server) GetConfig(context.Context, *authv1.GetConfigRequest) (*authv1.AuthConfig, error) {
	if p := s.Methods.OIDC; p != nil {
		return &authv1.AuthConfig{
			Methods: []string{"oidc"}, Oidc: &authv1.OidcConfig{Issuer: p.Issuer, Name: p.Name}, DeviceFlow: s.Methods.DeviceFlow,
		}, nil
	}
	return &authv1.AuthConfig{Methods: []string{"password"}, DeviceFlow: s.Methods.DeviceFlow}, nil
}

// PeerServer implements CredentialService.
type PeerServer struct {
	authpeerv1.UnimplementedCredentialServiceServer

	Sessions *Sessions
	Signer   *authn.Signer
	Keys     CallerKeys
	// Gateways are the gateways that cache the identities that Authenticate returns.
	Gateways *Gateways
	// Serving returns the error with which requests are rejected during maintenance, or nil if they are served.
	Serving func(ctx context.Context) error
}

// CallerKeys holds the keys of caller identities. It is implemented by key.Set.
type CallerKeys interface {
	Signing(ctx context.Context) (authn.SigningKey, error)
	Public(ctx context.Context) ([]authn.PublicKey, error)
}

// Authenticate implements CredentialService. It checks for maintenance before it checks the credential.
func (s *PeerServer) Authenticate(ctx context.Context, in *authpeerv1.AuthenticateRequest) (*authpeerv1.AuthenticateResponse, error) {
	if !in.GetInMaintenance() {
		if err := s.Serving(ctx); err != nil {
			return nil, err
		}
	}
	c, until, err := s.Sessions.identify(ctx, in.GetCredential(), in.GetClientAddress())
	if err != nil {
		return nil, err
	}
	key, err := s.Keys.Signing(ctx)
	if err != nil {
		return nil, err
	}
	token, _, err := s.Signer.SignWith(key, c)
	if err != nil {
		return nil, err
	}
	return &authpeerv1.AuthenticateResponse{CallerToken: token, ValidUntil: request.OptionalTime(until)}, nil
}

// GetCallerKeys implements CredentialService.
func (s *PeerServer) GetCallerKeys(ctx context.Context, _ *authpeerv1.GetCallerKeysRequest) (*authpeerv1.CallerKeys, error) {
	keys, err := s.Keys.Public(ctx)
	if err != nil {
		return nil, err
	}
	out := &authpeerv1.CallerKeys{}
	for _, k := range keys {
		out.Keys = append(out.Keys, &authpeerv1.CallerKey{Kid: k.ID, PublicKey: k.Key})
	}
	return out, nil
}
