package oidc

import (
	"context"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// cookies sends the refresh token to the browser in a cookie. It is implemented by *session.Server.
type cookies interface {
	SetRefreshCookie(ctx context.Context, refresh secret.String) error
}

// Server implements OidcPeerService.
type Server struct {
	authpeerv1.UnimplementedOidcPeerServiceServer

	// SignIn is nil if the installation has no provider.
	SignIn  *SignIn
	Cookies cookies
}

func (s *Server) configured() error {
	if s.SignIn == nil {
		return fault.New(fault.Unconfigured, "oidc_off", "this installation has no sign-in provider; set SERVICE_OIDC_ISSUER")
	}
	return nil
}

// BeginOidc implements OidcPeerService.
func (s *Server) BeginOidc(ctx context.Context, in *authpeerv1.BeginOidcRequest) (*authpeerv1.BeginOidcResponse, error) {
	if err := s.configured(); err != nil {
		return nil, err
	}
	begun, err := s.SignIn.Begin(ctx, in.GetNext(), in.GetClientAddress())
	if err != nil {
		return nil, err
	}
	return &authpeerv1.BeginOidcResponse{AuthorizationUrl: begun.URL, Binding: begun.Binding.Reveal()}, nil
}

// FinishOidc implements OidcPeerService.
func (s *Server) FinishOidc(ctx context.Context, in *authpeerv1.FinishOidcRequest) (*authpeerv1.FinishOidcResponse, error) {
	if err := s.configured(); err != nil {
		return nil, err
	}
	tokens, next, err := s.SignIn.Finish(ctx, Callback{
		State: secret.New(in.GetState()), Code: secret.New(in.GetCode()), Binding: secret.New(in.GetBinding()),
		Issuer: in.GetIss(), Error: in.GetError(), Address: in.GetClientAddress(),
	})
	if err != nil {
		return nil, err
	}
	if err := s.Cookies.SetRefreshCookie(ctx, tokens.Refresh); err != nil {
		return nil, err
	}
	return &authpeerv1.FinishOidcResponse{Next: next}, nil
}
