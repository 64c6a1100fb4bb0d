package allinone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
)

func (w *runningServer) useLink(link string) (status int, body string) {
	w.t.Helper()
	_, token, ok := strings.Cut(link, "#link=")
	require.True(w.t, ok, link)
	a, err := client.New(w.ready.Address, nil).Call(w.t.Context(), http.MethodPost, "/api/auth/link", map[string]string{"link": token})
	require.NoError(w.t, err)
	return a.Status, string(a.Body)
}

func TestLink_signsInOnce(t *testing.T) {
	t.Parallel()
	w := serve(t, folderWithCluster(t), map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": "correct horse"})
	require.Empty(t, w.out.String(), "a link is shown only on a terminal")
	var out, errOut bytes.Buffer
	require.NoError(t, link(t.Context(), []string{"--data", w.ready.Data, "--next", "/jobs/job_1?tab=logs"}, &out, &errOut), w.log.String())
	shown := strings.TrimSpace(out.String())
	require.Regexp(t, `^`+w.ready.Address+`/login\?next=%2Fjobs%2Fjob_1%3Ftab%3Dlogs#link=lnk_[0-9A-Za-z]{49}$`, shown)
	require.Contains(t, errOut.String(), "signs in admin once")
	require.NotContains(t, w.log.String(), "lnk_")
	require.NoFileExists(t, filepath.Join(w.ready.Data, linkReply))
	require.NoFileExists(t, filepath.Join(w.ready.Data, linkRequest))

	status, body := w.useLink(shown)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"username":"admin"`)
	status, body = w.useLink(shown)
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, body, "bad_link")
	require.NoError(t, w.stop(), w.log.String())
}

func TestLink_arguments(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for want, args := range map[string][]string{
		"no signalboxd is running": {"--data", data},
		"unknown argument":         {"--data", data, "x"},
		"want a path":              {"--next", " "},
	} {
		require.ErrorContains(t, link(t.Context(), args, io.Discard, io.Discard), want)
	}
	require.Equal(t, "http://h/login#link=x", withNext("http://h/login#link=x", ""))
}

// linkDaemon returns a daemon that listens on the address and whose links have a fixed secret.
func linkDaemon(t *testing.T, addr, public string) *daemon {
	t.Helper()
	d, _ := newPartialDaemon(t, "")
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	d.listener = l
	d.settings.Common.Public.URL = public
	d.signInLink = func(context.Context) (auth.SignInLink, error) {
		return auth.SignInLink{Secret: secret.New("lnk_x"), Username: "admin", Expires: time.Unix(0, 0)}, nil
	}
	return d
}

// A link must not work for other machines.
func TestLink_onlyOnLoopback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr, public string
		ok           bool
	}{
		{"127.0.0.1:0", "", true},
		{"[::1]:0", "", true},
		{"127.0.0.1:0", "http://localhost:8080", true},
		{"0.0.0.0:0", "", false},
		{"[::]:0", "", false},
		{"127.0.0.1:0", "https://box.example", false},
		{"0.0.0.0:0", "http://127.0.0.1:8080", false},
	} {
		d := linkDaemon(t, c.addr, c.public)
		r, err := d.createLink(t.Context())
		if c.ok {
			require.NoError(t, err, c)
			require.Equal(t, d.url()+"/login#link=lnk_x", r.URL)
			continue
		}
		require.ErrorContains(t, err, "loopback", c)
	}
}

// terminal returns both ends of a pseudo-terminal.
func terminal(t *testing.T) (server, user *os.File) {
	t.Helper()
	server, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	fd := int(server.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	user, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = user.Close() })
	return server, user
}

func TestLink_shownOnlyOnTerminal(t *testing.T) {
	t.Parallel()
	server, user := terminal(t)
	d := linkDaemon(t, "127.0.0.1:0", "")
	d.options.Out = user
	d.showLink(t.Context())
	got := make([]byte, 1024)
	n, err := server.Read(got)
	require.NoError(t, err)
	require.Contains(t, string(got[:n]), "Console  "+d.url()+"/login#link=lnk_x   (signed in as admin by this link, once")

	d.signInLink = func(context.Context) (auth.SignInLink, error) { return auth.SignInLink{}, errors.New("off") }
	d.showLink(t.Context())
	n, err = server.Read(got)
	require.NoError(t, err)
	require.Contains(t, string(got[:n]), "Console  "+d.url())
	require.NotContains(t, string(got[:n]), "#link")

	file, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	d = linkDaemon(t, "127.0.0.1:0", "")
	d.options.Out = file
	d.showLink(t.Context())
	raw, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Empty(t, raw, "a journal may be read by others")
}
