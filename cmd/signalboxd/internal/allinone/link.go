package allinone

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// The command link creates the file linkRequest in the data folder and sends linkSignal. The running process then writes
// a reply, which contains a new link, to the file linkReply. Only the user of the data folder can do so. A process that
// does not handle the signal, such as an older version, ignores it.
const (
	linkRequest = "sign-in-link.request"
	linkReply   = "sign-in-link"
	linkSignal  = syscall.SIGWINCH
	linkWait    = 10 * time.Second
	linkEvery   = 50 * time.Millisecond
)

// reply is the content of linkReply.
type reply struct {
	URL      string    `json:"url,omitempty"`
	Username string    `json:"username,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	Error    string    `json:"error,omitempty"`
}

// link shows a sign-in link of the signalboxd that uses the data folder.
func link(ctx context.Context, args []string, out, errOut io.Writer) error {
	set, next := map[string]string{}, ""
	f := flag.NewFlagSet("signalboxd link", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.Func("data", dataFlag, nonEmpty("a folder", func(v string) { set["SERVICE_DATA"] = v }))
	f.Func("next", "path of the page to open after signing in, such as /jobs", nonEmpty("a path", func(v string) { next = v }))
	data, err := dataFolder(ctx, f, args, set)
	if err != nil {
		return err
	}
	r, err := requestLink(ctx, data)
	if err != nil {
		return err
	}
	fmt.Fprintf(errOut, "The link signs in %s once, until %s.\n", r.Username, r.Expires.Local().Format(time.TimeOnly))
	fmt.Fprintln(out, withNext(r.URL, next))
	return nil
}

// withNext adds the page to open to a link.
func withNext(link, next string) string {
	if next == "" {
		return link
	}
	return strings.Replace(link, "#", "?next="+url.QueryEscape(next)+"#", 1)
}

// requestLink has the process that holds the data folder create a link. It repeats the signal, because the process may
// not be ready to receive it yet.
func requestLink(ctx context.Context, data string) (r reply, err error) {
	holder, err := holderOf(data)
	if err != nil {
		return r, err
	}
	request, result := filepath.Join(data, linkRequest), filepath.Join(data, linkReply)
	defer func() { _, _ = os.Remove(request), os.Remove(result) }()
	if err := os.Remove(result); err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, fmt.Errorf("remove the last reply: %w", err)
	}
	if err := pki.WriteFile(request, nil); err != nil {
		return r, fmt.Errorf("request a sign-in link: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, linkWait)
	defer cancel()
	for {
		if !holder.Signal(linkSignal) {
			return r, fmt.Errorf("this user is not allowed to signal process %d, or it has ended; use the user who started it, or root", holder.PID)
		}
		if raw, err := os.ReadFile(result); err == nil && json.Unmarshal(raw, &r) == nil {
			break
		}
		if clock.Sleep(ctx, clock.Real(), linkEvery) != nil {
			return r, fmt.Errorf("process %d created no sign-in link within %v; it may be starting, or be an older version", holder.PID, linkWait)
		}
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// linkable returns an error if other machines may reach this process. The listener must have a loopback address, and so
// must the public URL, because a proxy may forward requests of other machines.
func (d *daemon) linkable() error {
	tcp, ok := d.listener.Addr().(*net.TCPAddr)
	at, err := url.Parse(d.url())
	if !ok || !tcp.IP.IsLoopback() || err != nil || !loopback(net.JoinHostPort(at.Hostname(), "0")) {
		return errors.New("sign-in links exist only if SERVICE_LISTEN and SERVICE_PUBLIC_URL are loopback addresses; sign in with a password")
	}
	return nil
}

// createLink creates a sign-in link for the user who runs this process.
func (d *daemon) createLink(ctx context.Context) (reply, error) {
	if err := d.linkable(); err != nil {
		return reply{}, err
	}
	l, err := d.signInLink(ctx)
	if err != nil {
		return reply{}, err
	}
	return reply{URL: d.url() + "/login#link=" + l.Secret.Reveal(), Username: l.Username, Expires: l.Expires}, nil
}

// links returns the worker that replies to requests of the command link.
func (d *daemon) links() process.Worker {
	return process.Worker{Name: "sign-in links", Run: func(ctx context.Context) error {
		woken := make(chan os.Signal, 1)
		signal.Notify(woken, linkSignal)
		defer signal.Stop(woken)
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-woken:
			}
			if os.Remove(d.folder.in(linkRequest)) != nil {
				continue // the signal was not meant for this, for example because a terminal was resized
			}
			if err := d.replyLink(ctx); err != nil {
				d.obs.Log.WarnContext(ctx, "could not reply with a sign-in link", "error", err)
			}
		}
	}}
}

func (d *daemon) replyLink(ctx context.Context) error {
	r, err := d.createLink(ctx)
	if err != nil {
		r = reply{Error: err.Error()}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the reply: %w", err)
	}
	return pki.WriteFile(d.folder.in(linkReply), raw)
}

// showLink shows the console's address and a sign-in link if the output is a terminal. Other outputs, such as the
// journal of a service manager, may be stored and read by others.
func (d *daemon) showLink(ctx context.Context) {
	out, ok := d.options.Out.(*os.File)
	if !ok || !isTerminal(out) {
		return
	}
	r, err := d.createLink(ctx)
	if err != nil {
		fmt.Fprintf(out, "\n  Console  %s\n\n", d.url())
		return
	}
	fmt.Fprintf(out, "\n  Console  %s   (signed in as %s by this link, once, within 10 minutes)\n  API      %s/api   Docs  %s/docs\n\n",
		r.URL, r.Username, d.url(), d.url())
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
