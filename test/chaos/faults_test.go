package chaos

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// database is the name of the Postgres server in the list of parts that a test disturbs.
const database = "postgres"

// faultsPerPart is the number of faults of each part if CHAOS_FAULTS is not set. If it is set, its value is the
// number of planned restarts, and also the number of kills, of all parts together.
const faultsPerPart = 3

// fault is a restart of a part. If it is planned, the part gets SIGTERM (the database SIGINT), otherwise SIGKILL.
type fault struct {
	part    string
	planned bool
}

// selectFaults returns the faults in the order in which they happen. The same seed returns the same faults.
func selectFaults(t *testing.T, parts []string) []fault {
	t.Helper()
	pick := rand.New(rand.NewPCG(draw.Seed(t), 0))
	var faults []fault
	if text := os.Getenv("CHAOS_FAULTS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "CHAOS_FAULTS must be a number")
		for i := range n {
			part := parts[i%len(parts)]
			faults = append(faults, fault{part, true}, fault{part, false})
		}
	} else {
		for _, part := range parts {
			kind := pick.IntN(2) == 0
			for range faultsPerPart {
				faults = append(faults, fault{part, kind})
				kind = !kind
			}
		}
	}
	pick.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	return faults
}

func TestSplitInstallation_faults(t *testing.T) {
	s := testenv.Split(t, testenv.Options{Env: manySlots(), Redis: true})
	runFaults(t, s, append(processes(), "redis", database))
}

func TestSingleProcess_faults(t *testing.T) {
	runFaults(t, testenv.Single(t, testenv.Options{Env: manySlots()}), []string{"signalboxd", database})
}

// runFaults disturbs the parts while trainings run and a deployment is called. Each training must succeed at its
// first attempt, with each step and each log line stored once. The engine must not be started again, no call may get
// a wrong response, and only a kill may cut calls.
func runFaults(t *testing.T, s *testenv.Installation, parts []string) {
	t.Helper()
	faults := selectFaults(t, parts)
	n := len(faults)
	const each = 20 * time.Second // maximum time for each fault, with a reserve for busy machines
	ctx, cancel := context.WithTimeout(t.Context(), 3*testenv.StageTimeout+time.Duration(n)*each)
	defer cancel()
	sc := &scenario{T: t, s: s, l: s.Loop(ctx)}
	sc.submit(ctx)
	require.NoError(t, sc.l.AwaitEnd(ctx), s.Tail())
	engine := sc.serve(ctx)
	d := sc.load(ctx)
	end := d.start(ctx)
	f := &disturber{T: t, s: s, l: sc.l, parts: parts}
	trainings := 0
	for len(faults) > 0 {
		const last = 1000
		r := newTrainer(ctx, t, s, last, "0.02", "finishes")
		trainings++
		r.folder(ctx)
		for len(faults) > 0 && !r.over(ctx) {
			before, earlier := d.count(), d.cuts()
			f.disturb(ctx, faults[0])
			s.Until(ctx, "calls succeed", func() bool { return d.count() > before })
			cut := d.cuts()[len(earlier):]
			t.Logf("%s, planned: %t: %d calls cut", faults[0].part, faults[0].planned, len(cut))
			if faults[0].planned {
				require.Empty(t, withinGrace(cut), "a planned restart must not cut calls that are shorter than its grace period")
			}
			faults = faults[1:]
		}
		r.requireComplete(ctx)
	}
	end()
	d.requireNoneWrong(t)
	t.Logf("%d faults during %d trainings", n, trainings)
	require.Equal(t, engine, sc.enginePID(ctx), "the engine must not be started again")
}

// over reports whether the training has ended.
func (r *trainer) over(ctx context.Context) bool {
	var now e2eflow.Job
	return r.l.Client.Get(ctx, "/api/jobs/"+r.l.Job.ID, nil, &now) == nil && now.Terminal()
}

// load returns a load whose calls ask a question that the model has solved in its validation.
func (sc *scenario) load(ctx context.Context) *load {
	sc.Helper()
	samples, err := sc.l.Samples(ctx)
	require.NoError(sc, err)
	for _, q := range samples {
		if q.Reward == 1 {
			return &load{l: sc.l, urls: []string{sc.s.URL}, question: q.Question, expected: q.Expected}
		}
	}
	require.FailNow(sc, "the model solved no held-out question in its validation")
	return nil
}

// disturber restarts the parts of an installation.
type disturber struct {
	*testing.T
	s     *testenv.Installation
	l     *e2eflow.Loop
	parts []string
}

// disturb carries out a fault and waits until all parts respond.
func (f *disturber) disturb(ctx context.Context, x fault) {
	f.Helper()
	signal := syscall.SIGKILL
	if x.planned {
		signal = syscall.SIGTERM
	}
	switch x.part {
	case database:
		f.disturbDatabase(ctx, x.planned)
	case "signalboxd":
		f.end(x.part, signal)
		f.s.StartSingle()
	default:
		f.end(x.part, signal)
		f.s.Processes[x.part].Start()
	}
	f.awaitParts(ctx)
}

// awaitParts waits until all parts respond and the node is ready.
func (f *disturber) awaitParts(ctx context.Context) {
	f.Helper()
	symptoms := symptoms()
	maps.DeleteFunc(symptoms, func(_ string, s symptom) bool { return s.route == "" })
	for _, part := range f.parts {
		if s, ok := symptoms[part]; ok {
			f.s.Until(ctx, part+" responds", func() bool { return !requestFails(ctx, f.l, s.path()) })
		}
	}
	f.s.Until(ctx, "the node is ready", func() bool { return onlyNode(ctx, f.T, f.l).State == "ready" })
}

// end sends the signal to a process and waits until it has ended.
func (f *disturber) end(part string, signal syscall.Signal) {
	f.Helper()
	p := f.s.Processes[part]
	p.Signal(signal)
	select {
	case <-p.Exited():
	case <-time.After(time.Minute):
		require.FailNow(f, part+" does not end", f.s.Tail())
	}
}

// disturbDatabase ends the database server. Its supervisor starts the server again.
func (f *disturber) disturbDatabase(ctx context.Context, planned bool) {
	f.Helper()
	pid := func() int { return f.s.Postgres.PID() }
	if f.s.Postgres == nil {
		pid = func() int { return postmaster(f.T, f.s) }
	}
	signal := syscall.SIGKILL
	if planned {
		signal = syscall.SIGINT // Postgres ends the connections and shuts down; after SIGTERM it would wait for them
	}
	before := pid()
	require.NoError(f, syscall.Kill(before, signal))
	f.s.Until(ctx, "a new database server runs", func() bool { return pid() != before })
}
