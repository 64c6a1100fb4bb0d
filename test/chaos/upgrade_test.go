package chaos

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// previous returns CHAOS_PREVIOUS, the folder of the earlier programs from which the tests upgrade. `make chaos` and `make
// upgrade` build them from the commit of deploy/previous. If the variable is not set, the tests start the same version
// again.
func previous() string { return os.Getenv("CHAOS_PREVIOUS") }

// TestSingleProcess_upgrade replaces the earlier signalboxd with this commit's signalboxd while a training runs and a
// deployment is called. The new version must migrate the database and take over the works.
func TestSingleProcess_upgrade(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*testenv.StageTimeout)
	defer cancel()
	s := testenv.Single(t, testenv.Options{Env: manySlots(), Programs: previous()})
	u := newUpgrade(ctx, t, s)
	end := u.calls.start(ctx)
	u.train(ctx)
	f := &disturber{T: t, s: s, l: u.l, parts: []string{"signalboxd"}}
	s.Program(testenv.Bin(t, "signalboxd"))
	f.disturb(ctx, fault{part: "signalboxd", planned: true})
	u.requireUntouched(ctx)
	end()
	u.calls.requireNoneWrong(t)
}

// TestSplitInstallation_upgradeBehindReplica replaces one process after another with this commit's program during a
// training, while calls are distributed over two gateways and two inference services. No call may be cut, or refused by
// both gateways. Then the gateways and inference services are restarted again. If there is an earlier version, each
// service is first upgraded and downgraded while all others have the earlier version.
func TestSplitInstallation_upgradeBehindReplica(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*testenv.StageTimeout)
	defer cancel()
	s := testenv.Split(t, testenv.Options{Env: manySlots(), Programs: previous()})
	u := newUpgrade(ctx, t, s)
	u.calls.urls = append(u.calls.urls, secondServing(ctx, t, u.scenario))
	end := u.calls.start(ctx)
	f := &disturber{T: t, s: s, l: u.l, parts: processes()}
	s.InstallUpgrade()
	if previous() != "" {
		for _, part := range processes() {
			u.alone(ctx, f, part)
		}
	}
	u.train(ctx)
	// Inference must not run an older version than the registry.
	order := []string{"auth", "jobs", "ingest", "inference", "inference-two", "registry", "gateway", "gateway-two", "agent"}
	for _, part := range order {
		f.end(part, syscall.SIGTERM)
		s.Upgrade(part)
		u.awaitCalls(ctx, f)
	}
	u.requireUntouched(ctx)
	for range faultsPerPart - 1 {
		for _, part := range []string{"gateway", "gateway-two", "inference", "inference-two"} {
			f.end(part, syscall.SIGTERM)
			s.Processes[part].Start()
			u.awaitCalls(ctx, f)
		}
	}
	end()
	u.calls.requireNoneWrong(t)
	require.Empty(t, u.calls.cut, "no call may be cut")
	require.Zero(t, u.calls.refused, "no call may be refused by both gateways")
}

// upgrade is an installation that is upgraded while a deployment is called and a training runs.
type upgrade struct {
	*scenario

	engine   int
	calls    *load
	training *trainer
}

// newUpgrade trains and deploys a model. It does not start the calls.
func newUpgrade(ctx context.Context, t *testing.T, s *testenv.Installation) *upgrade {
	t.Helper()
	sc := &scenario{T: t, s: s, l: s.Loop(ctx)}
	sc.submit(ctx)
	require.NoError(t, sc.l.AwaitEnd(ctx), s.Tail())
	engine := sc.serve(ctx)
	return &upgrade{scenario: sc, engine: engine, calls: sc.load(ctx)}
}

// alone upgrades one service while all others have the earlier version, then starts its earlier version again. Calls and
// reports continue meanwhile, and in both states a new job is submitted, trains and ends.
func (u *upgrade) alone(ctx context.Context, f *disturber, part string) {
	u.Helper()
	before := u.calls.count()
	start := func(steps int, pause string) *trainer {
		session := *u.l // one for each job: signing in again and again would exceed the limit of an address
		session.Job = e2eflow.Job{}
		return startTrainer(ctx, u.T, u.s, &session, steps, pause, "finishes")
	}
	training := start(300, "0.05")
	training.folder(ctx)
	former := u.program(part)
	replicas := []string{part}
	if u.s.Processes[part+"-two"] != nil {
		replicas = append(replicas, part+"-two")
	}
	var programs []string
	for _, run := range []func(name string){u.s.Upgrade, u.s.Downgrade} {
		for _, name := range replicas {
			f.end(name, syscall.SIGTERM)
			run(name)
			u.awaitCalls(ctx, f)
		}
		start(5, "0.01").requireComplete(ctx)
		programs = append(programs, u.program(part))
	}
	require.NotEqual(u, former, programs[0], "the program of this version must have run")
	require.Equal(u, former, programs[1], "the program of the earlier version must run again")
	training.requireComplete(ctx)
	require.Equal(u, u.engine, u.enginePID(ctx), "the engine must not be started again")
	u.Logf("%s: %d calls succeeded while it was upgraded and downgraded; %d refused, %d cut; all 310 points and lines of three jobs are stored",
		part, u.calls.count()-before, u.calls.refused, len(u.calls.cuts()))
}

// program returns the file of the program that a process runs.
func (u *upgrade) program(name string) string {
	u.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", u.s.Processes[name].PID()))
	require.NoError(u, err)
	return path
}

// train starts a training and waits until it runs.
func (u *upgrade) train(ctx context.Context) {
	u.Helper()
	u.training = newTrainer(ctx, u.T, u.s, 1000, "0.05", "finishes")
	u.training.folder(ctx)
}

// awaitCalls waits until all parts respond and calls through every gateway succeed.
func (u *upgrade) awaitCalls(ctx context.Context, f *disturber) {
	u.Helper()
	f.awaitParts(ctx)
	for _, url := range u.calls.urls {
		u.awaitServing(ctx, url)
	}
	before := u.calls.count()
	u.s.Until(ctx, "calls succeed", func() bool { return u.calls.count() > before+10 })
}

// requireUntouched requires that the training and the engine have outlived the upgrade, and that the training succeeds.
func (u *upgrade) requireUntouched(ctx context.Context) {
	u.Helper()
	require.NoError(u, syscall.Kill(u.engine, 0))
	require.False(u, u.training.over(ctx), "the training must run during the upgrade")
	before := u.calls.count()
	u.s.Until(ctx, "calls succeed", func() bool { return u.calls.count() > before })
	u.training.requireComplete(ctx)
	require.Equal(u, u.engine, u.enginePID(ctx), "the engine must not be started again")
}
