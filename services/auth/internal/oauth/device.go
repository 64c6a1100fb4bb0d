package oauth

import (
	"context"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/device"
)

// devices runs the device flow. It is implemented by *device.Flow.
type devices interface {
	Begin(ctx context.Context, s device.Start) (device.Codes, error)
	Poll(ctx context.Context, p device.Poll) (device.Token, error)
}

// BeginDevice implements the device authorization endpoint (RFC 8628 3.1).
func (a *Authority) BeginDevice(ctx context.Context, form map[string]string, address string) (device.Codes, error) {
	client, err := a.Clients.identified(ctx, form)
	switch {
	case err != nil:
		return device.Codes{}, err
	case !client.Device:
		return device.Codes{}, refused(wordUnauthorized, "this client may not use the device flow")
	case form["scope"] != "":
		return device.Codes{}, refused(wordScope, "scope is not allowed; the device flow gives tokens of the API, which have no scope")
	}
	return a.Devices.Begin(ctx, device.Start{ClientID: client.ID, ClientName: client.Name, Address: address})
}

// poll returns the token of a device's flow (RFC 8628 3.4). It is an access token of the API.
func (a *Authority) poll(ctx context.Context, client Client, form map[string]string, address string) (Tokens, error) {
	if form["device_code"] == "" {
		return Tokens{}, refused(wordRequest, "device_code is missing")
	}
	t, err := a.Devices.Poll(ctx, device.Poll{Code: secret.New(form["device_code"]), ClientID: client.ID, Address: address})
	if err != nil {
		return Tokens{}, err
	}
	return Tokens{Access: t.Access, Expires: t.Expires}, nil
}
