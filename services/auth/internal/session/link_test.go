package session

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// linkHarness returns a harness with two admins; amy is the first.
func linkHarness(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t)
	h.exec(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES
		('usr_2', 'amy', 'admin', 'right', now() - interval '2 hours'), ('usr_3', 'bob', 'admin', 'right', now() - interval '1 hour')`)
	return h
}

func (h *harness) link() Link {
	h.t.Helper()
	l, err := h.CreateLink(h.t.Context())
	require.NoError(h.t, err)
	return l
}

func (h *harness) badLink(token secret.String) {
	h.t.Helper()
	tokens, err := h.UseLink(h.t.Context(), token.Reveal(), "192.0.2.7")
	h.refused(err)
	require.Equal(h.t, "bad_link", fault.From(err).Code)
	require.Zero(h.t, tokens)
}

func TestLink_signsInFirstAdminOnce(t *testing.T) {
	t.Parallel()
	h := linkHarness(t)
	link := h.link()
	require.Equal(t, "amy", link.Username)
	require.Equal(t, h.clock.Now().Add(10*time.Minute), link.Expires)
	require.Equal(t, secret.KindLink, secret.Kind(link.Secret.Reveal()), "256 random bits")
	tokens, err := h.UseLink(t.Context(), link.Secret.Reveal(), "192.0.2.7")
	require.NoError(t, err)
	require.Equal(t, []string{"usr_2", "amy", "admin"}, []string{tokens.AccountID, tokens.Username, tokens.Role})
	require.False(t, tokens.Refresh.IsZero(), "a browser stays signed in")
	c, err := h.authenticate(tokens.Access)
	require.NoError(t, err)
	require.Equal(t, "usr_2", c.Subject)
	list, _, err := h.List(t.Context(), "usr_2", request.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "sign-in link", *list[0].ClientName, "the user recognizes the session")
	require.Equal(t, []string{"sign_in_link.create", "session.open", "sign_in_link.use"}, h.audits())
	h.badLink(link.Secret)
	require.Equal(t, 1, h.count("session"))
}

func TestLink_storedAsHash(t *testing.T) {
	t.Parallel()
	h := linkHarness(t)
	link := h.link()
	var hash []byte
	require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT hash FROM sign_in_link`).Scan(&hash))
	require.Equal(t, secret.Hash(link.Secret.Reveal()), hash)
}

func TestLink_concurrentUses(t *testing.T) {
	t.Parallel()
	h := linkHarness(t)
	link := h.link()
	var wg sync.WaitGroup
	var won atomic.Int32
	for range 6 {
		wg.Go(func() {
			if _, err := h.UseLink(t.Context(), link.Secret.Reveal(), "192.0.2.7"); err == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
	require.Equal(t, 1, h.count("session"))
}

func TestLink_endsWithTimeOrAccount(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*harness){
		"expired":      func(h *harness) { h.clock.Advance(LinkTTL) },
		"disabled":     func(h *harness) { h.exec(`UPDATE account SET disabled_at = now() WHERE id = 'usr_2'`) },
		"new password": func(h *harness) { h.exec(`UPDATE account SET epoch = epoch + 1 WHERE id = 'usr_2'`) },
	} {
		h := linkHarness(t)
		link := h.link()
		end(h)
		h.badLink(link.Secret)
		require.Zero(t, h.count("session"), name)
	}
	h := linkHarness(t)
	link := h.link()
	h.clock.Advance(LinkTTL - time.Second)
	_, err := h.UseLink(t.Context(), link.Secret.Reveal(), "192.0.2.7")
	require.NoError(t, err)
}

func TestLink_otherCredentialsRefused(t *testing.T) {
	t.Parallel()
	h := linkHarness(t)
	tokens := h.login()
	link := h.link()
	unknown, err := secret.Mint(rand.Reader, secret.KindLink)
	require.NoError(t, err)
	for _, token := range []secret.String{tokens.Access, tokens.Refresh, unknown, secret.New(link.Secret.Reveal() + "x"), {}} {
		h.badLink(token)
	}
	_, err = h.authenticate(link.Secret)
	h.refused(err)
	_, err = h.renew(link.Secret)
	h.refused(err)
}

func TestLink_boundedAndSwept(t *testing.T) {
	t.Parallel()
	h := linkHarness(t)
	first := h.link()
	for range maxLinks {
		h.clock.Advance(time.Second)
		h.link()
	}
	require.Equal(t, maxLinks, h.count("sign_in_link"))
	h.badLink(first.Secret)
	require.NoError(t, h.SweepLinks(t.Context()))
	require.Equal(t, maxLinks, h.count("sign_in_link"), "valid links are kept")
	h.clock.Advance(LinkTTL + time.Second)
	require.NoError(t, h.SweepLinks(t.Context()))
	require.Zero(t, h.count("sign_in_link"))
}

func TestLink_countsAsLoginAttempt(t *testing.T) {
	t.Parallel()
	h := linkHarness(t)
	link := h.link()
	h.Limit = fixedLimiter{fault.New(fault.Limited, "login_rate", "too many")}
	_, err := h.UseLink(t.Context(), link.Secret.Reveal(), "192.0.2.7")
	require.True(t, fault.Is(err, fault.Limited), "%v", err)
	h.Limit = fixedLimiter{}
	_, err = h.UseLink(t.Context(), link.Secret.Reveal(), "192.0.2.7")
	require.NoError(t, err, "the refused attempt did not use up the link")
}

func TestLink_needsEnabledAdmin(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	_, err := h.CreateLink(t.Context())
	require.ErrorContains(t, err, "no enabled admin")
}

// Under a provider no link exists, and a link from before is refused.
func TestLink_offWithProvider(t *testing.T) {
	t.Parallel()
	h := linkHarness(t)
	link := h.link()
	s := &Server{Sessions: h.Sessions, Methods: Methods{OIDC: &Provider{Name: "Example"}}}
	h.ByProvider = true
	_, err := h.CreateLink(t.Context())
	require.True(t, fault.Is(err, fault.Unconfigured), "%v", err)
	ctx := authn.NewContext(metadata.NewIncomingContext(t.Context(), nil), &authn.Caller{Kind: authn.KindNone, ClientAddr: "192.0.2.7"})
	_, err = s.UseLink(ctx, &authv1.UseLinkRequest{Link: link.Secret.Reveal()})
	require.True(t, fault.Is(err, fault.Unconfigured), "%v", err)
	require.Zero(t, h.count("session"))
}
