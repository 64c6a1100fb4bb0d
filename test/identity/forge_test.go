package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	forgeries = 10_000
	// headerCap is the size of request headers above which the server may reject a request before it checks the
	// credential.
	headerCap = 60 << 10
)

// TestForgedTokensRejected sends generated forgeries of an access token to an installation.
func TestForgedTokensRejected(t *testing.T) {
	t.Parallel()
	s := testenv.Single(t, testenv.Options{Env: cheapHashing()})
	c := newCaller(t, s.URL, "")
	good := c.signIn(t, s, "").token()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := newForger(t, c, good, seed)
	tokens := make([]string, forgeries)
	for n := range tokens {
		tokens[n] = f.next(n)
	}
	require.Greater(t, len(slices.Compact(slices.Sorted(slices.Values(tokens)))), forgeries/2, "the forgeries must differ")
	statuses := sendTokens(t, c, good, tokens)
	t.Logf("%d forgeries of %d kinds: %v", forgeries, len(f.kinds), statuses)
	require.Zero(t, statuses[http.StatusOK])
	for status := range statuses {
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusBadRequest}, status)
	}
	a, err := c.request(t.Context(), http.MethodGet, "/api/auth/me", "", "Authorization", "Bearer "+good)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, "the valid token must still be accepted")
}

// sendTokens sends each token to one of several routes that accept the valid token. It counts the responses by status.
func sendTokens(t *testing.T, c *caller, good string, tokens []string) map[int]int {
	t.Helper()
	paths := []string{"/api/auth/me", "/api/admin/keys", "/api/jobs", "/api/projects"}
	for _, path := range paths {
		a, err := c.request(t.Context(), http.MethodGet, path, "", "Authorization", "Bearer "+good)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.status, "%s: %s", path, a.body)
	}
	var mu sync.Mutex
	statuses := map[int]int{}
	work := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range work {
				token := tokens[n]
				a, err := c.request(t.Context(), http.MethodGet, paths[n%len(paths)], "", "Authorization", "Bearer "+token)
				if err != nil && len(token) > headerCap {
					continue // the server rejected the headers and closed the connection
				}
				if err != nil || len(token) <= headerCap && a.status != http.StatusUnauthorized {
					t.Errorf("unexpected response to a forged token: %v %d %s; token %.300s", err, a.status, a.body, token)
				}
				mu.Lock()
				statuses[a.status]++
				mu.Unlock()
			}
		})
	}
	for n := range tokens {
		work <- n
	}
	close(work)
	wg.Wait()
	return statuses
}

type object = map[string]any

// forger generates tokens that resemble a valid token.
type forger struct {
	draw           *rand.Rand
	good           string
	header, claims object
	kid            string
	public         []byte // public key of the valid token, as published
	jwks           string
	kinds          []func() string
}

func newForger(t *testing.T, c *caller, good string, seed uint64) *forger {
	t.Helper()
	a, err := c.request(t.Context(), http.MethodGet, "/.well-known/jwks.json", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status)
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &set))
	f := &forger{draw: rand.New(rand.NewPCG(seed, 4)), good: good, jwks: a.body, header: object{}, claims: object{}}
	parts := strings.Split(good, ".")
	for i, into := range []*object{&f.header, &f.claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, into))
	}
	f.kid, _ = f.header["kid"].(string)
	at := slices.IndexFunc(set.Keys, func(k map[string]string) bool { return k["kid"] == f.kid })
	require.GreaterOrEqual(t, at, 0, "the token's key must be published")
	f.public, err = base64.RawURLEncoding.DecodeString(set.Keys[at]["x"])
	require.NoError(t, err)
	f.kinds = []func() string{
		f.unsigned, f.hmac, f.strangersKey, f.otherAlgorithm, f.keyReferences, f.kids, f.twice, f.encrypted, f.dots,
		f.otherClaims, f.flipped, f.cut, f.reencoded, f.randomSignature, f.opaque, f.mixed,
	}
	return f
}

// next returns forgery number n.
func (f *forger) next(n int) string {
	for {
		if token := f.kinds[n%len(f.kinds)](); token != f.good {
			return token
		}
	}
}

// with returns a copy of the object with some members changed. A nil value removes the member.
func with(o, changes object) object {
	out := maps.Clone(o)
	for k, v := range changes {
		if out[k] = v; v == nil {
			delete(out, k)
		}
	}
	return out
}

// pick returns a random element of list.
func pick[T any](f *forger, list ...T) T { return list[f.draw.IntN(len(list))] }

func segment(v any) string {
	raw, ok := v.(string)
	if !ok {
		b, _ := json.Marshal(v)
		raw = string(b)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(raw))
}
