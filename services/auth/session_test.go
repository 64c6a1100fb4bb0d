package auth_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// cookie returns the value of the refresh cookie in the response headers; it is empty if none was set.
func cookie(t *testing.T, header metadata.MD) string {
	t.Helper()
	values := header.Get("x-service-set-cookie")
	if len(values) == 0 {
		return ""
	}
	require.Len(t, values, 1)
	c, err := http.ParseSetCookie(values[0])
	require.NoError(t, err)
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	return c.Value
}

func TestLoginAndMe(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, refresh, err := h.login("admin", password)
	require.NoError(t, err)
	require.NotEmpty(t, refresh)
	ctx, err := h.as(token)
	require.NoError(t, err)
	me, err := h.public.GetMe(ctx, &authv1.GetMeRequest{})
	require.NoError(t, err)
	require.Equal(t, "admin", me.GetUsername())
	require.EqualValues(t, 7, me.GetQuota().GetGpuAvailable())
}

// GetMe works while the jobs service is unavailable, but does not hide other errors of that service.
func TestGetMe_jobsUnavailable(t *testing.T) {
	t.Parallel()
	h := open(t)
	accounts := h.db.Pool(auth.Name)
	var admin string
	require.NoError(t, accounts.QueryRow(t.Context(), `SELECT id FROM account WHERE username = 'admin'`).Scan(&admin))
	ctx := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: admin, Username: "admin"})
	for kind, ok := range map[fault.Kind]bool{fault.Unavailable: true, fault.Internal: false} {
		s := &session.Server{Accounts: account.NewLoader(accounts), Quota: quota{err: fault.New(kind, "", "jobs is down")}}
		me, err := s.GetMe(ctx, &authv1.GetMeRequest{})
		require.Equal(t, ok, err == nil, "%s: %v", kind, err)
		if ok {
			require.Equal(t, "admin", me.GetUsername())
			require.Nil(t, me.GetQuota())
		}
	}
}

func TestLogin_sameErrorForUnknownUser(t *testing.T) {
	t.Parallel()
	h := open(t)
	_, _, wrong := h.login("admin", "not it")
	_, _, unknown := h.login("nobody", "not it")
	require.True(t, fault.Is(wrong, fault.Unauthenticated))
	require.Equal(t, wrong.Error(), unknown.Error())
}

func TestLogin_eleventhAttemptLimited(t *testing.T) {
	t.Parallel()
	h := open(t)
	for range 10 {
		_, _, err := h.login("admin", "not it")
		require.True(t, fault.Is(err, fault.Unauthenticated))
	}
	_, _, err := h.login("admin", password)
	require.True(t, fault.Is(err, fault.Limited), "the correct password is limited too")
	require.Positive(t, fault.From(err).RetryAfter)
}

func TestRefresh_tokenUsedOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	_, first, err := h.login("admin", password)
	require.NoError(t, err)
	_, second, err := h.refresh(first)
	require.NoError(t, err)
	require.NotEmpty(t, second)
	token, again, err := h.refresh(first)
	require.NoError(t, err, "a repeat within the grace period succeeds")
	require.Equal(t, second, again, "a repeat sets the same cookie")
	_, err = h.as(token)
	require.NoError(t, err)

	h.clock.Advance(11 * time.Second)
	_, _, err = h.refresh(first)
	require.True(t, fault.Is(err, fault.Unauthenticated), "a repeat after the grace period counts as reuse")
	_, _, err = h.refresh(second)
	require.True(t, fault.Is(err, fault.Unauthenticated), "reuse revokes all refresh tokens of the session")
	_, err = h.as(token)
	require.True(t, fault.Is(err, fault.Unauthenticated), "reuse ends the access tokens")
}

func TestRefresh_concurrentCallsHaveOneSuccessor(t *testing.T) {
	t.Parallel()
	h := open(t)
	_, first, err := h.login("admin", password)
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	successors := map[string]bool{}
	for range 20 {
		wg.Go(func() {
			_, next, err := h.refresh(first)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				successors[next] = true
			}
		})
	}
	wg.Wait()
	require.Len(t, successors, 1)
	require.NotContains(t, successors, "")
}

func TestLogout_endsTokensAtOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, refresh, err := h.login("admin", password)
	require.NoError(t, err)
	ctx, err := h.as(token)
	require.NoError(t, err)
	_, err = h.public.Logout(ctx, &authv1.LogoutRequest{})
	require.NoError(t, err)
	_, err = h.as(token)
	require.True(t, fault.Is(err, fault.Unauthenticated))
	_, _, err = h.refresh(refresh)
	require.True(t, fault.Is(err, fault.Unauthenticated))
}

func TestTokenInvalidation_effectiveAtNextCall(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"disabled":     `UPDATE account SET disabled_at = now()`,
		"raised epoch": `UPDATE account SET epoch = epoch + 1`,
		"revoked":      `UPDATE session SET revoked_at = now(), revoked_reason = 'admin'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			token, _, err := h.login("admin", password)
			require.NoError(t, err)
			_, err = h.db.Pool(auth.Name).Exec(t.Context(), sql)
			require.NoError(t, err)
			_, err = h.as(token)
			require.True(t, fault.Is(err, fault.Unauthenticated))
		})
	}
}

func TestTokensExpire(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	h.clock.Advance(8*time.Hour - time.Minute)
	_, err = h.as(token)
	require.NoError(t, err)
	h.clock.Advance(2 * time.Minute)
	_, err = h.as(token)
	require.True(t, fault.Is(err, fault.Unauthenticated))
}

func TestAuthenticate_rejectsOtherCredentials(t *testing.T) {
	t.Parallel()
	h := open(t)
	ctx, err := h.as("")
	require.NoError(t, err)
	caller, err := h.peer.Authenticate(ctx, &authpeerv1.AuthenticateRequest{})
	require.NoError(t, err)
	kinds := []string{secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin}
	credentials := []string{caller.GetCallerToken(), "rubbish", strings.Repeat("a.", 4000)}
	for _, kind := range kinds {
		s, err := secret.Mint(rand.Reader, kind)
		require.NoError(t, err)
		credentials = append(credentials, s.Reveal())
	}
	for i, c := range credentials {
		_, err := h.as(c)
		require.True(t, fault.Is(err, fault.Unauthenticated), fmt.Sprint(i))
	}
}

func TestBootstrap_runsOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	again := service(t, h.db, h.clock)
	first, err := again.Bootstrap(t.Context())
	require.NoError(t, err)
	require.Nil(t, first)
	var accounts, audits int
	row := h.db.Pool(auth.Name).QueryRow(t.Context(), `SELECT (SELECT count(*) FROM account), (SELECT count(*) FROM audit)`)
	require.NoError(t, row.Scan(&accounts, &audits))
	require.Equal(t, 1, accounts)
	require.Equal(t, 1, audits)
	require.NoError(t, again.Ready(t.Context()))
}

func TestSecondReplica_usesSameKeys(t *testing.T) {
	t.Parallel()
	h := open(t)
	mine, err := service(t, h.db, h.clock).Keys(t.Context())
	require.NoError(t, err)
	theirs, err := h.peer.GetCallerKeys(t.Context(), &authpeerv1.GetCallerKeysRequest{})
	require.NoError(t, err)
	require.Equal(t, mine[0].ID, theirs.GetKeys()[0].GetKid())
}

// Each login has the cost of a real one and comes from an address of its own.
func TestLogin_hundredAtOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	salt := []byte("0123456789abcdef")
	key := argon2.IDKey([]byte(password), salt, 2, 19456, 1, 32)
	_, err := h.db.Pool(auth.Name).Exec(t.Context(), `UPDATE account SET password_hash = $1`, "$argon2id$v=19$m=19456,t=2,p=1$"+
		base64.RawStdEncoding.EncodeToString(salt)+"$"+base64.RawStdEncoding.EncodeToString(key))
	require.NoError(t, err)
	public := startService(t, h, "http://127.0.0.1")
	results := make(chan error, 100)
	for n := range cap(results) {
		out, err := h.peer.Authenticate(t.Context(), &authpeerv1.AuthenticateRequest{ClientAddress: "10.0.0." + strconv.Itoa(n)})
		require.NoError(t, err)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the timeout of the gateway
			defer cancel()
			ctx = authn.WithToken(ctx, out.GetCallerToken(), h.clock.Now().Add(time.Minute))
			_, err := public.Login(ctx, &authv1.LoginRequest{Username: "admin", Password: password})
			results <- err
		}()
	}
	finished := 0
	for range cap(results) {
		err := <-results
		if err == nil {
			finished++
			continue
		}
		require.True(t, fault.Is(err, fault.Unavailable) && fault.HasCode(err, "login_busy"), "%v", err)
		require.Positive(t, fault.From(err).RetryAfter)
	}
	require.GreaterOrEqual(t, finished, 20)
}
