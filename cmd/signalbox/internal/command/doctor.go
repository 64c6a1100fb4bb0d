package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/credential"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// errUnwell reports that a check of doctor failed.
var errUnwell = errors.New("a check failed; its line has the remedy")

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warning, failed or left out
	Detail string `json:"detail"`
}

// doctor checks what a user needs from this machine to the installation.
type doctor struct {
	t        *tool
	chosen   settings.Chosen
	c        *client.Client
	findings []finding
}

func (t *tool) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", GroupID: groupTool, Short: "Check the way from this machine to the installation", Args: noArguments,
		Long: `Check the installation, the versions, the clock, the login, an upload and a stream, and print what to do about what fails.

The upload sends a kilobyte to the project, or to the project default, and the stream is open for a moment.`,
		Example: "signalbox doctor\nsignalbox doctor -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := t.Settings()
			if err != nil {
				return err
			}
			d := &doctor{t: t, chosen: chosen}
			d.run(cmd.Context())
			return d.print()
		},
	}
}

func (d *doctor) add(check, state, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, State: state, Detail: fmt.Sprintf(format, args...)})
}

// run makes all checks. One that needs an earlier one that failed is left out.
func (d *doctor) run(ctx context.Context) {
	c, err := d.t.ClientOf(d.chosen)
	if err != nil {
		d.add("server", "failed", "%s", err)
		return
	}
	d.c = c
	if !d.server(ctx) {
		return
	}
	login, ok := d.login(ctx)
	if !ok {
		return
	}
	d.c = d.c.With(login.Token)
	d.upload(ctx)
	d.stream(ctx)
}

// maxSkew is the difference between two clocks from which on logins and signed addresses can fail.
const maxSkew = time.Minute

// server checks that the installation responds, its version and its clock.
func (d *doctor) server(ctx context.Context) bool {
	began := d.t.Clock.Now()
	resp, err := d.c.Call(ctx, http.MethodGet, "/api/version", nil)
	if err == nil && resp.Status != http.StatusOK {
		err = resp.Err()
	}
	if err != nil {
		d.add("server", "failed", "%s; check the address, the network and the proxy of this machine", err)
		return false
	}
	took := d.t.Clock.Now().Sub(began)
	d.add("server", "ok", "%s responds in %d ms", d.chosen.Server, took.Milliseconds())
	var v struct{ Server, API string }
	if err := json.Unmarshal(resp.Body, &v); err != nil {
		d.add("versions", "failed", "%s is not a Signalbox installation: its version is not JSON", d.chosen.Server)
		return false
	}
	d.versions(v.Server)
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		skew := began.Add(took / 2).Sub(at).Round(time.Second)
		if skew.Abs() > maxSkew {
			d.add("clock", "failed", "this machine is %s off from the server; synchronise its clock", skew)
		} else {
			d.add("clock", "ok", "less than a minute off from the server")
		}
	}
	return true
}

// versions compares the versions, if both are releases.
func (d *doctor) versions(server string) {
	release := func(version string) bool { return strings.HasPrefix(version, "v") }
	if d.t.Version != server && release(d.t.Version) && release(server) {
		d.add("versions", "warning", "this program is %s and the server %s; install the program of the server's version", d.t.Version, server)
		return
	}
	d.add("versions", "ok", "this program %s, server %s", d.t.Version, server)
}

// login checks that the login is accepted and for how long.
func (d *doctor) login(ctx context.Context) (credential.Credential, bool) {
	login, err := d.t.Login(d.chosen)
	if err == nil {
		var who account
		if who, err = whoIs(ctx, d.c.With(login.Token)); err == nil {
			left := ""
			if !login.ExpiresAt.IsZero() {
				left = ", valid for " + output.Span(login.ExpiresAt.Sub(d.t.Clock.Now()))
			}
			d.add("login", "ok", "%s (%s)%s", who.Username, who.Role, left)
			return login, true
		}
	}
	remedy := "; run: signalbox login"
	if as[*session.LoginError](err) {
		remedy = "" // its text ends with it
	}
	d.add("login", "failed", "%s%s", err, remedy)
	return login, false
}

// upload sends a small package as a submission with own code would, and commits it. The same bytes each time are stored
// once.
func (d *doctor) upload(ctx context.Context) {
	project := d.chosen.Project
	if project == "" {
		project = "default"
	}
	sum := sha256.Sum256(probe())
	body := map[string]any{"project": project, "size_bytes": len(probe()), "sha256": hex.EncodeToString(sum[:])}
	var ticket struct {
		ID     string `json:"id"`
		Upload *struct {
			URL     string            `json:"url"`
			Method  string            `json:"method"`
			Headers map[string]string `json:"headers"`
		} `json:"upload"`
	}
	err := d.c.Post(ctx, "/api/submit/packages", body, &ticket)
	if err == nil && ticket.Upload != nil {
		err = d.c.Upload(ctx, ticket.Upload.Method, ticket.Upload.URL, ticket.Upload.Headers, probe())
	}
	switch {
	case err != nil:
		d.add("upload", "failed", "%s; the object store must be reachable from this machine, and you must be an editor of the project %s", err, project)
	case ticket.Upload == nil:
		d.add("upload", "ok", "the object store has the bytes of an earlier check")
	default:
		d.add("upload", "ok", "%d bytes stored", len(probe()))
	}
}

// probe returns the bytes that an upload is checked with: an empty tar archive.
func probe() []byte { return make([]byte, 1024) }

// firstEvent is how long the first event of a stream may take. A proxy that collects responses holds it back for ever.
const firstEvent = 10 * time.Second

// stream checks that events arrive at once.
func (d *doctor) stream(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstEvent)
	defer cancel()
	arrived := errors.New("an event arrived")
	_, err := d.c.Follow(ctx, "/api/jobs/stream", "", func(client.Event) error { return arrived })
	switch {
	case errors.Is(err, arrived):
		d.add("stream", "ok", "events arrive at once")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.add("stream", "failed", "no event arrived within %s; a proxy on the way may collect responses: turn its buffering off", firstEvent)
	default:
		d.add("stream", "failed", "%s", err)
	}
}

func (d *doctor) print() error {
	rows := make([]json.RawMessage, 0, len(d.findings))
	failed := false
	for _, f := range d.findings {
		raw, err := json.Marshal(f)
		if err != nil {
			return fmt.Errorf("print a finding: %w", err)
		}
		rows = append(rows, raw)
		failed = failed || f.State == "failed"
	}
	p, err := d.t.Printer()
	if err != nil {
		return err
	}
	p.Width = 0 // a remedy is never cut
	if err := p.Rows([]output.Column{{Name: "check"}, {Name: "state"}, {Name: "detail"}}, rows); err != nil {
		return err
	}
	if failed {
		return errUnwell
	}
	return nil
}
