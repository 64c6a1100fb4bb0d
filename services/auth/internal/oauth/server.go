package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth/internal/device"
)

// Server implements OAuthService, which the user's browser calls.
type Server struct {
	authv1.UnimplementedOAuthServiceServer

	Authority *Authority
}

// DecideAuthorization implements OAuthService.
func (s *Server) DecideAuthorization(ctx context.Context, in *authv1.DecideAuthorizationRequest) (*authv1.AuthorizationDecision, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	to, err := s.Authority.Decide(ctx, c, AuthorizationRequest{
		ResponseType: in.GetResponseType(), ClientID: in.GetClientId(), Redirect: in.GetRedirectUri(), Challenge: in.GetCodeChallenge(),
		Method: in.GetCodeChallengeMethod(), Resource: in.GetResource(), Scope: in.GetScope(), State: in.State, Approve: in.GetApprove(),
	})
	if err != nil {
		return nil, err
	}
	return &authv1.AuthorizationDecision{RedirectTo: to}, nil
}

// PeerServer implements OAuthPeerService, which clients call through the gateway.
type PeerServer struct {
	authpeerv1.UnimplementedOAuthPeerServiceServer

	Authority *Authority
	Keys      keySet
}

// IssueToken implements OAuthPeerService.
func (s *PeerServer) IssueToken(ctx context.Context, in *authpeerv1.IssueTokenRequest) (*authpeerv1.OAuthAnswer, error) {
	t, err := s.Authority.Issue(ctx, in.GetForm(), in.GetClientAddress())
	return reply(err, struct {
		Access  string `json:"access_token"`
		Type    string `json:"token_type"`
		Expires int64  `json:"expires_in"`
		Refresh string `json:"refresh_token,omitempty"`
		Scope   string `json:"scope,omitempty"`
	}{t.Access.Reveal(), "Bearer", seconds(t.Expires), t.Refresh.Reveal(), t.Scope})
}

// RevokeToken implements OAuthPeerService.
func (s *PeerServer) RevokeToken(ctx context.Context, in *authpeerv1.RevokeTokenRequest) (*authpeerv1.OAuthAnswer, error) {
	return reply(s.Authority.Revoke(ctx, in.GetForm()), nil)
}

// AuthorizeDevice implements OAuthPeerService.
func (s *PeerServer) AuthorizeDevice(ctx context.Context, in *authpeerv1.AuthorizeDeviceRequest) (*authpeerv1.OAuthAnswer, error) {
	c, err := s.Authority.BeginDevice(ctx, in.GetForm(), in.GetClientAddress())
	page, complete := device.Page(s.Authority.PublicURL(), c.User)
	return reply(err, struct {
		Device   string `json:"device_code"`
		User     string `json:"user_code"`
		Page     string `json:"verification_uri"`
		Complete string `json:"verification_uri_complete"`
		Expires  int64  `json:"expires_in"`
		Interval int64  `json:"interval"`
	}{c.Device.Reveal(), c.User, page, complete, seconds(c.TTL), seconds(c.Interval)})
}

// GetMetadata implements OAuthPeerService.
func (s *PeerServer) GetMetadata(ctx context.Context, in *authpeerv1.GetMetadataRequest) (*authpeerv1.Metadata, error) {
	body, err := document(ctx, in.GetDocument(), s.Authority.PublicURL(), s.Keys)
	if err != nil {
		return nil, err
	}
	return &authpeerv1.Metadata{Body: body}, nil
}

// reply returns a response with the OAuth error or, without an error, with the body. It returns other errors unchanged.
func reply(err error, body any) (*authpeerv1.OAuthAnswer, error) {
	out := &authpeerv1.OAuthAnswer{Status: http.StatusOK}
	if err != nil {
		f := fault.From(err)
		if f.OAuth == "" {
			return nil, err
		}
		out.Status = int32(fault.HTTPStatus(f.Kind))
		out.RetryAfterSeconds = int32(math.Ceil(max(f.RetryAfter, 0).Seconds()))
		body = struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}{f.OAuth, f.Text()}
	}
	if body == nil {
		return out, nil
	}
	if out.Body, err = json.Marshal(body); err != nil {
		return nil, fmt.Errorf("encode the response: %w", err)
	}
	return out, nil
}
