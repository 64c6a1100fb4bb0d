// Package devicelogin owns the sign-in of a program without a browser (RFC 8628): the program shows an address and a
// code, a person approves it in any browser, and the program gets an access token.
package devicelogin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Request is a sign-in that waits for its approval.
type Request struct {
	UserCode string `json:"user_code"`
	// Address is the page on which the code is entered. Complete also contains the code.
	Address  string `json:"verification_uri"`
	Complete string `json:"verification_uri_complete"`
	// Seconds is how long the request is valid, and Interval the pause between two polls, in seconds.
	Seconds  int `json:"expires_in"`
	Interval int `json:"interval"`

	device secret.String
}

// Token is the result of an approved sign-in.
type Token struct {
	Access secret.String
	// Seconds is how long the token is valid.
	Seconds int
}

// The ends of a sign-in without a token.
var (
	ErrDenied  = errors.New("the sign-in was denied in the browser")
	ErrExpired = errors.New("the code has expired before it was approved; run signalbox login again")
)

// Start requests a code.
func Start(ctx context.Context, c *client.Client) (Request, error) {
	var out struct {
		Request

		DeviceCode string `json:"device_code"`
	}
	if err := c.Post(ctx, "/api/cli/device/code", map[string]any{}, &out); err != nil {
		return Request{}, fmt.Errorf("request a code: %w", err)
	}
	out.device = secret.New(out.DeviceCode)
	return out.Request, nil
}

// slower is what RFC 8628 adds to the interval when the server responds slow_down.
const slower = 5 * time.Second

// Await polls until a person has decided, the code has expired, or ctx ends. A server that cannot be reached for a while
// does not end it.
func Await(ctx context.Context, c *client.Client, clk clock.Clock, r Request) (Token, error) {
	interval := time.Duration(max(r.Interval, 1)) * time.Second
	deadline := clk.Now().Add(time.Duration(r.Seconds) * time.Second)
	for clk.Now().Before(deadline) {
		if err := clock.Sleep(ctx, clk, interval); err != nil {
			return Token{}, err
		}
		resp, err := c.Call(ctx, http.MethodPost, "/api/cli/device/token", map[string]any{"device_code": r.device.Reveal()})
		if err != nil {
			if ctx.Err() != nil {
				return Token{}, ctx.Err()
			}
			continue
		}
		token, state, err := read(resp)
		switch {
		case err != nil:
			return Token{}, err
		case state == "slow_down":
			interval += slower
		case state == "":
			return token, nil
		}
	}
	return Token{}, ErrExpired
}

// read returns the token, or why there is none yet.
func read(resp *client.Response) (token Token, state string, err error) {
	var body struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
		Error       string `json:"error"`
		Detail      any    `json:"detail"`
	}
	if err := json.Unmarshal(resp.Body, &body); err != nil {
		return Token{}, "", fmt.Errorf("decode the response of the sign-in: %w", err)
	}
	switch {
	case resp.Status == http.StatusOK && body.AccessToken != "":
		return Token{Access: secret.New(body.AccessToken), Seconds: body.ExpiresIn}, "", nil
	case resp.Status == http.StatusTooManyRequests || resp.Status >= http.StatusInternalServerError:
		return Token{}, "slow_down", nil
	case body.Error == "authorization_pending" || body.Error == "slow_down":
		return Token{}, body.Error, nil
	case body.Error == "access_denied":
		return Token{}, "", ErrDenied
	case body.Error == "expired_token":
		return Token{}, "", ErrExpired
	}
	return Token{}, "", fmt.Errorf("the sign-in failed: %d: %v", resp.Status, body.Detail)
}
