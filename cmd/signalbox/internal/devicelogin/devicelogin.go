// Package devicelogin owns the sign-in of a program without a browser (RFC 8628): the program shows an address and a
// code, a person approves it in any browser, and the program gets an access token. A server that is away meanwhile, or
// that has too many requests, does not end the sign-in.
package devicelogin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	// Valid is how long the token is valid, or 0 if the server does not state it.
	Valid time.Duration
}

// The ends of a sign-in without a token.
var (
	ErrDenied  = errors.New("the sign-in was denied in the browser")
	ErrExpired = errors.New("the code has expired before it was approved; run signalbox login again")
)

// errResponse reports a response that is not one of a Signalbox server.
var errResponse = errors.New("the response to the request for a code is incomplete; is the address that of a Signalbox installation?")

// Start requests a code.
func Start(ctx context.Context, c *client.Client) (Request, error) {
	var out struct {
		Request

		DeviceCode string `json:"device_code"`
	}
	if err := c.Post(ctx, "/api/cli/device/code", map[string]any{}, &out); err != nil {
		return Request{}, fmt.Errorf("request a code: %w", err)
	}
	r := out.Request
	if r.Complete == "" {
		r.Complete = r.Address
	}
	// A browser opens the address. A file, or the scheme of another program, must not be opened.
	u, err := url.Parse(r.Complete)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || out.DeviceCode == "" || r.UserCode == "" || r.Seconds <= 0 {
		return Request{}, errResponse
	}
	r.device = secret.New(out.DeviceCode)
	return r, nil
}

const (
	// shortest is the pause between two polls if the server states none (RFC 8628 3.2).
	shortest = 5 * time.Second
	// slower is what RFC 8628 adds to the interval when the server responds slow_down.
	slower = 5 * time.Second
	// pollTime is how long one poll may take. A connection that hangs must not outlast the code.
	pollTime = 30 * time.Second
)

// Await polls until a person has decided, the code has expired, or ctx ends; the error is then the cause of that. A server
// that cannot be reached for a while does not end it.
func Await(ctx context.Context, c *client.Client, clk clock.Clock, r Request) (Token, error) {
	interval := time.Duration(r.Interval) * time.Second
	if interval <= 0 {
		interval = shortest
	}
	deadline := clk.Now().Add(time.Duration(r.Seconds) * time.Second)
	for clk.Now().Before(deadline) {
		if clock.Sleep(ctx, clk, interval) != nil {
			return Token{}, context.Cause(ctx)
		}
		token, next, err := poll(ctx, c, r)
		switch {
		case ctx.Err() != nil:
			return Token{}, context.Cause(ctx)
		case err != nil:
			return Token{}, err
		case next == done:
			return token, nil
		case next == slow:
			interval += slower
		}
	}
	return Token{}, ErrExpired
}

// outcome is what follows a poll.
type outcome int

const (
	again outcome = iota // after the same interval
	slow                 // after a longer interval
	done
)

// poll requests the token once.
func poll(ctx context.Context, c *client.Client, r Request) (Token, outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	resp, err := c.Call(ctx, http.MethodPost, "/api/cli/device/token", map[string]any{"device_code": r.device.Reveal()})
	if err != nil {
		if client.Retryable(err) {
			return Token{}, again, nil
		}
		return Token{}, again, fmt.Errorf("wait for the approval: %w", err)
	}
	return read(resp)
}

// read returns the token, or what to do without one.
func read(resp *client.Response) (Token, outcome, error) {
	var body struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
		Error       string `json:"error"`
	}
	// A proxy in front of the server sends other errors than JSON.
	decoded := json.Unmarshal(resp.Body, &body)
	switch body.Error {
	case "authorization_pending":
		return Token{}, again, nil
	case "slow_down":
		return Token{}, slow, nil
	case "access_denied":
		return Token{}, again, ErrDenied
	case "expired_token":
		return Token{}, again, ErrExpired
	}
	switch {
	case resp.Status == http.StatusTooManyRequests:
		return Token{}, slow, nil
	case resp.Status >= http.StatusInternalServerError:
		return Token{}, again, nil
	case resp.Status != http.StatusOK:
		return Token{}, again, fmt.Errorf("wait for the approval: %w", resp.Err())
	case decoded != nil || body.AccessToken == "":
		return Token{}, again, errResponse
	}
	return Token{Access: secret.New(body.AccessToken), Valid: time.Duration(max(body.ExpiresIn, 0)) * time.Second}, done, nil
}
