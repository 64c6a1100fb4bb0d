package auth

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/services/auth/internal/device"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// deviceSessions open the sessions of approved devices: an access token of the API and no refresh token,
// since a command line repeats the flow instead.
type deviceSessions struct{ sessions *session.Sessions }

// OpenDevice opens a session in the transaction that uses the device's code.
func (d deviceSessions) OpenDevice(ctx context.Context, tx pgx.Tx, o device.Opening) (device.Token, error) {
	t, err := d.sessions.OpenTx(ctx, tx, session.OpenRequest{
		AccountID: o.AccountID, Method: session.MethodDevice, ClientAddress: o.Address, ClientName: o.ClientName,
	})
	return device.Token{Access: t.Access, Expires: t.ExpiresIn}, err
}

// devices is the device flow, for its JSON routes and for the forms.
func (s *Service) devices() *device.Flow {
	return &device.Flow{
		Pool: s.deps.Pool, Sessions: deviceSessions{s.sessions}, Audit: s.sessions.Audit, Clock: s.deps.Clock, IDs: s.deps.IDs, Rand: s.deps.Rand,
	}
}

// registerDevice puts the JSON face of the device flow on a server, and says in the sign-in configuration
// that there is one.
func (s *Service) registerDevice(r grpc.ServiceRegistrar) {
	s.public.Methods.DeviceFlow = true
	authv1.RegisterDeviceServiceServer(r, &device.Server{Flow: s.devices(), PublicURL: s.deps.PublicURL})
}

// sweeping is a loop that forgets what has ended.
func (s *Service) sweeping(name string, sweep func(context.Context) error) run.Worker {
	return run.Worker{Name: name, Run: func(ctx context.Context) error {
		return run.Loop(ctx, s.deps.Clock, sweepEvery, sweepJitter, run.Logged(s.deps.Log, name, sweep))
	}}
}
