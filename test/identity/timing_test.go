package identity_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/identity"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// unlikely is the p-value below which two samples count as different. A second measurement must confirm the
	// difference.
	unlikely = 0.001
	// maxMedianRatio limits the ratio of the larger median to the smaller one. Two samples with a higher ratio count
	// as different, whatever the p-value.
	maxMedianRatio = 1.5
)

// slowHashing returns settings with which a password check takes some milliseconds. That is short, but much
// longer than the rest of a login.
func slowHashing() map[string]string {
	env := cheapHashing()
	env["SERVICE_AUTH_HASH_MEMORY_KIB"] = "4096"
	return env
}

// samples contains the durations of failed logins: wrong for an existing user with a wrong password, unknown for
// unknown users.
type samples struct{ wrong, unknown []time.Duration }

// distinguishable reports whether the two samples differ.
func (s samples) distinguishable() bool {
	ratio := float64(identity.Median(s.wrong)) / float64(identity.Median(s.unknown))
	return identity.RankSum(s.wrong, s.unknown) < unlikely || ratio > maxMedianRatio || ratio < 1/maxMedianRatio
}

func (s samples) String() string {
	return fmt.Sprintf("2 x %d: wrong password %s, unknown user %s, p %.4f", len(s.wrong), identity.Median(s.wrong), identity.Median(s.unknown), identity.RankSum(s.wrong, s.unknown))
}

// measure times n logins with a wrong password and n with an unknown user, each from a new address. It
// requires that all responses are the same.
func measure(t testing.TB, c *caller, n, firstAddress int) samples {
	t.Helper()
	var s samples
	var like *response
	try := func(user string, into *[]time.Duration) {
		a, err := c.login(t.Context(), user, password, client(firstAddress))
		firstAddress++
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, a.status, a.body)
		*into = append(*into, a.took)
		if like == nil {
			like = &a
		}
		requireSameResponse(t, *like, a)
	}
	for range n {
		unknown := "u" + fmt.Sprint(1000+rand.IntN(9000)) // the name has the same length as `admin`
		if rand.IntN(2) == 0 {
			try("admin", &s.wrong)
			try(unknown, &s.unknown)
			continue
		}
		try(unknown, &s.unknown)
		try("admin", &s.wrong)
	}
	return s
}

// requireSameResponse requires that two responses differ only in the fields that differ between all responses.
func requireSameResponse(t testing.TB, a, b response) {
	t.Helper()
	require.Equal(t, a.body, b.body)
	strip := func(h http.Header) http.Header {
		h = maps.Clone(h)
		for _, name := range []string{"Date", "X-Request-Id"} {
			require.Len(t, h.Get(name), len(a.header.Get(name)), name)
			h.Del(name)
		}
		return h
	}
	require.Equal(t, strip(a.header), strip(b.header))
}

// TestLoginTiming_unknownUserLikeWrongPassword measures both kinds of failed logins alternately.
func TestLoginTiming_unknownUserLikeWrongPassword(t *testing.T) {
	s := testenv.Single(t, testenv.Options{Env: slowHashing()})
	c := newCaller(t, s.URL, "")
	const n = 200
	measure(t, c, 20, 40_000) // warm up connections and caches
	first := measure(t, c, n, 0)
	t.Log(first)
	if !first.distinguishable() {
		return
	}
	// By chance, about one measurement in a thousand differs that much. On a busy machine, more measurements do.
	second := measure(t, c, n, 2*n)
	require.False(t, second.distinguishable(), "the failed logins were distinguishable in both measurements: %s; %s", first, second)
}

// TestLoginTiming_detectsMissingDummyHash builds the server without the dummy hash for unknown users. The
// measurement must detect the difference.
func TestLoginTiming_detectsMissingDummyHash(t *testing.T) {
	if !allSamples() {
		t.Log("skipped: needs a separate build; run make identity")
		return
	}
	s := testenv.Single(t, testenv.Options{Env: slowHashing()})
	s.Processes["signalboxd"].Stop(askTimeout)
	s.Processes["signalboxd"].Run(withoutDummy(t))
	s.StartSingle()
	c := newCaller(t, s.URL, "")
	measure(t, c, 20, 40_000)
	got := measure(t, c, 200, 0)
	require.True(t, got.distinguishable(), "%s", got)
	t.Log(got)
}

// withoutDummy builds signalboxd without the dummy hash for unknown users.
func withoutDummy(t *testing.T) string {
	t.Helper()
	root, dir := testenv.Root(t), t.TempDir()
	file := filepath.Join(root, "services", "auth", "internal", "password", "password.go")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	const with, without = "\t\tstored = h.dummy\n", "\t\treturn false, nil\n"
	require.Equal(t, 1, strings.Count(string(raw), with))
	changed := filepath.Join(dir, "password.go")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(raw), with, without, 1)), 0o600))
	overlay := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, file, changed), 0o600))
	program := filepath.Join(dir, "signalboxd")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, "./cmd/signalboxd")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// BenchmarkUnknownUserAgainstWrongPassword measures larger samples.
func BenchmarkUnknownUserAgainstWrongPassword(b *testing.B) {
	s := testenv.Single(b, testenv.Options{Env: slowHashing()})
	c := newCaller(b, s.URL, "")
	measure(b, c, 20, 40_000)
	for b.Loop() {
		got := measure(b, c, 2000, 0)
		b.Log(got)
		b.ReportMetric(identity.RankSum(got.wrong, got.unknown), "p")
		b.ReportMetric(float64(slices.Min([]time.Duration{identity.Median(got.wrong), identity.Median(got.unknown)}).Microseconds())/1000, "ms/login")
	}
}
