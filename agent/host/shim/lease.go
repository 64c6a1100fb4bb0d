package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Lease is the content of lease.json: how the shim renews the lease of its work with the control plane, so that the
// work continues while the agent does not respond. The agent writes the file before Launch, or later if the lease
// begins later, and again when the URL or the relay changes. Only the agent's user can read the file, because the work
// must not have the token.
type Lease struct {
	Version int    `json:"version"`
	URL     string `json:"url"`
	WorkID  string `json:"work_id"`
	Token   string `json:"token"`
	// Since is the time at which the lease began.
	Since time.Time `json:"since"`
	// Grace is the time that the processes have to end after the control plane has requested a stop.
	Grace time.Duration `json:"grace"`
	// Silence is the time without a renewal after which the shim stops the command; 0 means that the command continues.
	Silence time.Duration `json:"silence,omitempty"`
	// Relay is the address, host:port, through which other hosts reach the command; empty if the command needs no
	// relay. The lease is renewed only while the relay responds. Without the relay, the work receives no requests and
	// must be replaced.
	Relay string `json:"relay,omitempty"`
	// Final means that the command must end if the control plane refuses the lease, because another execution may run
	// instead. It is false for an engine, whose token is replaced while it runs.
	Final bool `json:"final,omitempty"`
}

func leaseFile(dir string) string { return filepath.Join(dir, "lease.json") }

// WriteLease writes lease.json.
func WriteLease(dir string, l Lease) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the shim: %w", err)
	}
	l.Version = Version
	return localfile.WriteJSON(leaseFile(dir), l, localfile.PrivateMode)
}

const (
	// renewTimeout is the deadline of one renewal.
	renewTimeout = 10 * time.Second
	// renewUnknown is the longest pause before a failed renewal is repeated, and the pause between renewals if the
	// control plane names none.
	renewUnknown = 30 * time.Second
	// unleased is the pause before a shim without a lease looks for one again.
	unleased    = 2 * time.Second
	maxResponse = 4 << 10
	// finalRefusals is how many refusals in succession end a command whose lease is final.
	finalRefusals = 2
	// relayTimeout is the time within which a relay must respond.
	relayTimeout = 5 * time.Second
)

// leave is a request to stop the command, with the reason.
type leave struct {
	grace  time.Duration
	cause  Cause
	reason string
}

// renewer renews the lease of the shim's work until the context of its method run ends.
type renewer struct {
	dir    string
	clock  clock.Clock
	client *http.Client
	jitter func() float64
	// leave receives a value when the command must stop.
	leave chan leave

	last     time.Time // when the last successful renewal was sent
	failures int       // failed renewals since the last successful one
	refusals int       // refused renewals in succession
}

// run renews the lease at once and then at the pace that the control plane names.
func (r *renewer) run(ctx context.Context) {
	for clock.Sleep(ctx, r.clock, r.once(ctx)) == nil {
	}
}

// now returns the time of the wall clock, which advances even while the machine is suspended.
func (r *renewer) now() time.Time { return r.clock.Now().Round(0) }

// once renews the lease and returns the pause before the next renewal. A failure does not affect the command, unless
// the lease limits the silence and the limit is reached.
func (r *renewer) once(ctx context.Context) time.Duration {
	var l Lease
	if err := localfile.ReadJSON(leaseFile(r.dir), &l); errors.Is(err, fs.ErrNotExist) {
		return unleased
	} else if err != nil {
		return renewUnknown
	}
	if r.last.IsZero() {
		r.last = l.Since.Round(0)
	}
	grace := min(l.Grace, l.Silence/2)
	left := func() time.Duration { return l.Silence - grace - r.now().Sub(r.last) }
	timeout := renewTimeout
	if l.Silence > 0 {
		timeout = min(timeout, max(left(), time.Second))
	}
	pause, err := r.renew(ctx, l, timeout)
	if err != nil {
		pause = clock.Backoff{Base: time.Second, Max: renewUnknown, Jitter: r.jitter}.Wait(r.failures)
		r.failures++
	}
	if errors.Is(err, errRefused) && l.Final {
		return r.refused(l)
	}
	r.refusals = 0
	if l.Silence == 0 {
		return pause
	}
	if left() <= 0 && ctx.Err() == nil {
		r.stop(leave{grace: grace, cause: CauseSilence, reason: fmt.Sprintf("the lease was not renewed for %s", r.now().Sub(r.last).Round(time.Second))})
	}
	return min(pause, max(left(), time.Second))
}

// refused stops the command if the control plane has refused the lease twice in succession. It returns the pause before the
// next renewal.
func (r *renewer) refused(l Lease) time.Duration {
	if r.refusals++; r.refusals >= finalRefusals {
		r.stop(leave{grace: l.Grace, cause: CauseOrder, reason: "the control plane has given the work up"})
	}
	return time.Second
}

// stop sends the request on the channel leave, unless an earlier request is pending.
func (r *renewer) stop(l leave) {
	select {
	case r.leave <- l:
	default:
	}
}

// renew sends one renewal and returns the pause before the next one.
func (r *renewer) renew(ctx context.Context, l Lease, timeout time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := relays(ctx, l.Relay); err != nil {
		return 0, err
	}
	sent := r.now()
	lease, err := l.renew(ctx, r.client)
	if err != nil {
		return 0, err
	}
	r.last, r.failures = sent, 0
	if lease.Stop {
		r.stop(leave{grace: l.Grace, cause: CauseOrder, reason: "the control plane requested the stop"})
	}
	return r.pace(lease.RenewS), nil
}

// errRefused reports that the control plane does not know the lease, because the work was given up or has another lease.
var errRefused = errors.New("the control plane refuses the lease")

// renewed is the response to a renewal.
type renewed struct {
	RenewS int  `json:"renew_s"`
	Stop   bool `json:"stop"`
}

// renew sends one renewal. The error is errRefused if the control plane refuses the lease.
func (l Lease) renew(ctx context.Context, client *http.Client) (lease renewed, err error) {
	body, err := json.Marshal(map[string]string{"work_id": l.WorkID, "token": l.Token})
	if err != nil {
		return lease, fmt.Errorf("encode the renewal: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL, bytes.NewReader(body))
	if err != nil {
		return lease, fmt.Errorf("create the renewal: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return lease, fmt.Errorf("send the renewal: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return lease, fmt.Errorf("read the response to the renewal: %w", err)
	}
	if resp.StatusCode == http.StatusUnauthorized && refusesLease(raw) {
		return lease, errRefused
	}
	if resp.StatusCode != http.StatusOK {
		return lease, fmt.Errorf("renew the lease: the control plane responded with status %d", resp.StatusCode)
	}
	if err := json.Unmarshal(raw, &lease); err != nil {
		return lease, fmt.Errorf("read the response to the renewal: %w", err)
	}
	return lease, nil
}

// refusesLease reports whether the body of a response with status 401 is that of the control plane. A proxy may respond
// with this status, too.
func refusesLease(body []byte) bool {
	var fault struct {
		Code string `json:"code"`
	}
	return json.Unmarshal(body, &fault) == nil && fault.Code == "lease_token"
}

// relays returns an error unless the relay at the address responds. A relay responds if it accepts a connection and
// closes it after the shim has closed its own side without a handshake. For a frozen relay, the kernel also accepts
// connections but does not close them.
func relays(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connect to the relay: %w", err)
	}
	defer func() { _ = conn.Close() }()
	cut := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer cut()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	// A reset of the connection is a response as well.
	if _, err := io.Copy(io.Discard, io.LimitReader(conn, maxResponse)); ctx.Err() != nil {
		return fmt.Errorf("wait for the relay: %w", errors.Join(ctx.Err(), err))
	}
	return nil
}

// pace returns a pause of 75 to 100 percent of the given seconds, so that works that started together do not renew
// together.
func (r *renewer) pace(seconds int) time.Duration {
	whole := renewUnknown
	if seconds > 0 {
		whole = min(time.Duration(seconds)*time.Second, time.Hour)
	}
	const spread = 4
	return whole - time.Duration(r.jitter()*float64(whole/spread))
}

// renewLease renews the lease in the background as soon as there is one. The returned function ends the renewals.
func (o *owner) renewLease() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &renewer{dir: o.dir, clock: o.clock, client: &http.Client{}, jitter: o.jitter, leave: o.leave}
	if o.start.Queued {
		r.last = r.now()
	}
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
