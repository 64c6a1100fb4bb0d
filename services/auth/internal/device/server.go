package device

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// Server implements DeviceService, the JSON routes of the flow.
type Server struct {
	authv1.UnimplementedDeviceServiceServer

	Flow *Flow
	// PublicURL returns the address at which browsers reach the installation.
	PublicURL func() string
}

// Page returns the address of the page on which a user approves, without and with the user code in its query. A GET
// of either address changes nothing.
func Page(publicURL, userCode string) (plain, complete string) {
	plain = strings.TrimSuffix(publicURL, "/") + "/device"
	return plain, plain + "?" + url.Values{"user_code": {userCode}}.Encode()
}

// CreateDeviceCode implements DeviceService.
func (s *Server) CreateDeviceCode(ctx context.Context, in *authv1.CreateDeviceCodeRequest) (*authv1.DeviceCode, error) {
	name := ClientName
	if in.ClientName != nil {
		// The user who decides reads the name, so it must not contain invisible characters.
		name = strings.TrimSpace(in.GetClientName())
		if err := account.CheckName("client_name", name); err != nil {
			return nil, err
		}
	}
	c, err := s.Flow.Begin(ctx, Start{ClientID: ClientID, ClientName: name, Address: authn.CallerOf(ctx).ClientAddr})
	if err != nil {
		return nil, err
	}
	if err := request.SetStatus(ctx, http.StatusOK); err != nil { // RFC 8628 3.2 requires 200, not 201
		return nil, err
	}
	page, complete := Page(s.PublicURL(), c.User)
	return &authv1.DeviceCode{
		DeviceCode: c.Device.Reveal(), UserCode: c.User, VerificationUri: page, VerificationUriComplete: complete,
		ExpiresIn: int32(c.TTL.Seconds()), Interval: int32(c.Interval.Seconds()),
	}, nil
}

// PollDeviceToken implements DeviceService.
func (s *Server) PollDeviceToken(ctx context.Context, in *authv1.PollDeviceTokenRequest) (*authv1.DeviceToken, error) {
	t, err := s.Flow.Poll(ctx, Poll{Code: secret.New(in.GetDeviceCode()), ClientID: ClientID, Address: authn.CallerOf(ctx).ClientAddr})
	if err != nil {
		return nil, err
	}
	return &authv1.DeviceToken{AccessToken: t.Access.Reveal(), TokenType: "Bearer", ExpiresIn: int32(t.Expires.Seconds())}, nil
}

// GetDeviceRequest implements DeviceService.
func (s *Server) GetDeviceRequest(ctx context.Context, in *authv1.GetDeviceRequestRequest) (*authv1.DeviceRequest, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	return requestToProto(s.Flow.View(ctx, c, in.GetUserCode()))
}

// DecideDeviceRequest implements DeviceService.
func (s *Server) DecideDeviceRequest(ctx context.Context, in *authv1.DecideDeviceRequestRequest) (*authv1.DeviceRequest, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	return requestToProto(s.Flow.Decide(ctx, c, in.GetUserCode(), in.GetDecision() == authv1.DeviceDecision_DEVICE_DECISION_APPROVE))
}

func requestToProto(r Request, err error) (*authv1.DeviceRequest, error) {
	if err != nil {
		return nil, err
	}
	return &authv1.DeviceRequest{
		UserCode: r.UserCode, ClientName: r.ClientName, ClientAddress: r.ClientAddress, State: r.State,
		CreatedAt: timestamppb.New(r.CreatedAt), ExpiresAt: timestamppb.New(r.ExpiresAt),
	}, nil
}
