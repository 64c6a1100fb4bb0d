package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

func identityOf(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, identityFile))
	require.NoError(t, err)
	return string(raw)
}

// awaitTimers waits until the link has two timers: one for its renewal and one for its heartbeat.
func (p *fakeControlPlane) awaitTimers() {
	p.Helper()
	require.NoError(p, p.clock.Await(p.Context(), 2))
}

func TestRenewal_atTwoThirdsOfLifetime(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	first := p.session()
	first.welcome(t, 3600)
	first.desire(t, &jobsv1.Work{WorkId: "w", Desired: jobsv1.Desired_DESIRED_GONE})
	require.Len(t, await(t, m.host.applied, "the desired works"), 1)
	before := identityOf(t, m.dir)

	p.awaitTimers()
	p.clock.Advance(month*2/3 - time.Hour)
	p.awaitTimers()
	require.Equal(t, before, identityOf(t, m.dir), "the certificate must not be renewed before two thirds of its lifetime")
	require.Empty(t, p.renewals)

	// From now on the control plane rejects certificates of the old CA. The next session therefore proves that the link
	// uses the new key, certificate and CA.
	p.rotate()
	m.host.setObserved(executor.Observation{Key: executor.Key{WorkID: "w"}, Phase: executor.PhaseRunning})
	p.clock.Advance(2 * time.Hour)
	require.NoError(t, await(t, p.renewals, "the renewal"))
	second := p.session()
	require.Equal(t, "nod_1", second.hello.GetNodeId())
	require.Equal(t, "inc", second.hello.GetIncarnation(), "the incarnation must not change")
	observed := await(t, second.heard, "the observations")
	require.Equal(t, jobsv1.Phase_PHASE_RUNNING, observed.GetWorks()[0].GetPhase())
	for range first.heard {
	}
	require.Empty(t, m.host.applied, "the executor must not receive a list that the control plane did not send")
	after := identityOf(t, m.dir)
	require.NotEqual(t, before, after)
	second.welcome(t, 3600)
	m.stop()

	// The next agent with the same folder must be the same node with the renewed certificate, whose times are real. By
	// the test's clock, the next renewal is therefore already due. It must fail, so that the test can check the folder.
	p.renewsBy(func(*jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error) {
		return nil, status.Error(codes.Unavailable, "no renewal in this part of the test")
	})
	again := p.link(m.dir)
	require.Equal(t, "nod_1", p.session().hello.GetNodeId())
	require.Equal(t, after, identityOf(t, m.dir))
	again.stop()
}

func TestRenewal_newKeyStaysPrivate(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	requests := make(chan string, 1)
	p.renewsBy(func(r *jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error) {
		requests <- r.GetCertificateRequest()
		cert, ca, err := p.sign(r.GetCertificateRequest(), "nod_1")
		return &jobsv1.RenewCertificateResponse{Certificate: cert, CaCertificate: ca}, err
	})
	m := p.link(filepath.Join(t.TempDir(), "node"))
	p.session().welcome(t, 3600)
	p.awaitTimers()
	old := keyPart(t, identityOf(t, m.dir))
	p.clock.Advance(month * 3 / 4)
	request := await(t, requests, "the request")
	require.NotContains(t, request, "PRIVATE")
	p.session()
	fresh := keyPart(t, identityOf(t, m.dir))
	require.NotEqual(t, old, fresh, "the renewed certificate must have a new key")
	entries, err := os.ReadDir(m.dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "the folder must contain only node.json, node.pem and ca.pem")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
	}
	m.stop()
}

func keyPart(t *testing.T, identity string) string {
	t.Helper()
	_, key, found := strings.Cut(identity, "-----BEGIN PRIVATE KEY-----")
	require.True(t, found, "the identity must contain a key")
	return key
}

func TestRenewal_jitter(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	dir := filepath.Join(t.TempDir(), "node")
	m := p.link(dir)
	p.session()
	n, err := Load(dir)
	require.NoError(t, err)
	// The validity starts a minute in the past, for hosts whose clock is behind.
	life := month + time.Minute
	for _, c := range []struct {
		chance float64
		want   time.Duration
	}{
		{0, life / 3 * 2},
		{0.5, life/3*2 + life/48},
		{0.999999, life/3*2 + life/24},
	} {
		wait, err := m.untilRenewal(n, c.chance)
		require.NoError(t, err)
		require.InDelta(t, (c.want - time.Minute).Seconds(), wait.Seconds(), 60, "time until the renewal for chance %v", c.chance)
	}
	m.stop()
}

func TestRenewal_retriesWithBackoff(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	p.renewsBy(func(*jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error) {
		return nil, fault.New(fault.Unavailable, "away", "not now")
	})
	m := p.link(filepath.Join(t.TempDir(), "node"))
	p.session().welcome(t, 3600)
	before := identityOf(t, m.dir)
	p.awaitTimers()
	p.clock.Advance(month * 3 / 4)
	require.Error(t, await(t, p.renewals, "the first try"))
	// The backoff doubles each wait, starting at a minute. The jitter of these tests is 0, which halves each
	// wait.
	for _, wait := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		p.awaitTimers()
		p.clock.Advance(wait - time.Second)
		require.Empty(t, p.renewals, "the link must not try again before %s", wait)
		p.clock.Advance(time.Second)
		require.Error(t, await(t, p.renewals, "another try"))
	}
	require.Equal(t, before, identityOf(t, m.dir))
	p.awaitTimers()
	p.renewsBy(nil)
	p.clock.Advance(time.Hour)
	require.NoError(t, await(t, p.renewals, "the renewal"))
	p.session()
	require.NotEqual(t, before, identityOf(t, m.dir))
	m.stop()
}

func TestRenewal_invalidResponseKeepsCertificate(t *testing.T) {
	t.Parallel()
	otherCA, err := pki.NewCA(clock.Real().Now(), month)
	require.NoError(t, err)
	_, other, err := pki.NewRequest()
	require.NoError(t, err)
	for name, response := range map[string]func(*fakeControlPlane, string) (cert, ca string){
		"empty":      func(*fakeControlPlane, string) (string, string) { return "", "" },
		"not PEM":    func(*fakeControlPlane, string) (string, string) { return "x", "y" },
		"other key":  func(p *fakeControlPlane, _ string) (string, string) { return p.mustSign(string(other), "nod_1") },
		"other node": func(p *fakeControlPlane, r string) (string, string) { return p.mustSign(r, "nod_2") },
		"no CA": func(p *fakeControlPlane, r string) (string, string) {
			cert, _ := p.mustSign(r, "nod_1")
			return cert, ""
		},
		"other CA": func(p *fakeControlPlane, r string) (string, string) {
			cert, _ := p.mustSign(r, "nod_1")
			return cert, string(otherCA.CertPEM())
		},
		"already expired": func(p *fakeControlPlane, r string) (string, string) {
			cert, err := p.ca.SignNode([]byte(r), "nod_1", clock.Real().Now(), time.Hour)
			require.NoError(p, err)
			return string(cert), string(p.ca.CertPEM())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFakeControlPlane(t)
			p.renewsBy(func(r *jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error) {
				cert, ca := response(p, r.GetCertificateRequest())
				return &jobsv1.RenewCertificateResponse{Certificate: cert, CaCertificate: ca}, nil
			})
			m := p.link(filepath.Join(t.TempDir(), "node"))
			s := p.session()
			s.welcome(t, 3600)
			before := identityOf(t, m.dir)
			p.awaitTimers()
			p.clock.Advance(month * 3 / 4)
			require.NoError(t, await(t, p.renewals, "the response"))
			// The link checks the response before it waits for its next try.
			p.awaitTimers()
			p.clock.Advance(time.Hour)
			require.NoError(t, await(t, p.renewals, "another try"))
			require.Equal(t, before, identityOf(t, m.dir))
			s.desire(t)
			await(t, m.host.applied, "the session continues")
			m.stop()
		})
	}
}

func (p *fakeControlPlane) mustSign(request, id string) (cert, ca string) {
	p.Helper()
	cert, ca, err := p.sign(request, id)
	require.NoError(p, err)
	return cert, ca
}

func TestExpiredCertificateStopsLink(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	p.session()
	m.stop()
	p.clock.Advance(month + time.Hour) // certificates are valid for a month from the real time
	late := p.link(m.dir)
	err := await(t, late.done, "the link gives up")
	require.ErrorIs(t, err, ErrCertificateExpired)
	for _, word := range []string{"nod_1", "must join its fleet again", "remove " + m.dir, "join token"} {
		require.ErrorContains(t, err, word)
	}
	require.Empty(t, p.renewals, "an expired certificate must not be used")
	// Following the remedy in the error works: remove the folder and join again.
	require.NoError(t, os.RemoveAll(m.dir))
	fresh := p.link(m.dir)
	err = await(t, fresh.done, "the link gives up again: by the fake clock the new certificate has expired too")
	require.ErrorIs(t, err, ErrCertificateExpired)
	require.DirExists(t, m.dir, "the agent must have joined")
}

func TestCertificateExpiresDuringSession(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	p.renewsBy(func(*jobsv1.RenewCertificateRequest) (*jobsv1.RenewCertificateResponse, error) {
		return nil, fault.New(fault.Unavailable, "away", "not now")
	})
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	s.welcome(t, 3600)
	p.awaitTimers()
	p.clock.Advance(month + time.Hour)
	require.Error(t, await(t, p.renewals, "the last try"))
	s.end <- fault.New(fault.Unavailable, "draining", "the control plane restarts")
	require.ErrorIs(t, await(t, m.done, "the link gives up"), ErrCertificateExpired)
}
