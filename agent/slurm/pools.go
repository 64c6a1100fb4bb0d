package slurm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/slurm/rank"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

const (
	// probePrefix is the beginning of the key in the comment of a test.
	probePrefix = "probe-"
	// testAgain is the time after which a pool that failed its test is tested again.
	testAgain = 10 * time.Minute
	// passedAgain is the time after which a pool that passed its test is tested again, because nodes change.
	passedAgain = 24 * time.Hour
	// submitAgain is the pause before a test that Slurm does not accept now is submitted again.
	submitAgain = 5 * time.Second
	// testTime is how long a test may take after its start. It may wait as long as Slurm lets it wait.
	testTime = 5 * time.Minute
	// testLook is the time between two checks for the result of a test.
	testLook = 200 * time.Millisecond
	// maxPools is the maximum number of pools of an agent.
	maxPools = 64
)

// SetPools implements executor.Cluster.
func (r *Runner) SetPools(pools []executor.Pool) {
	pools = slices.Clone(pools[:min(len(pools), maxPools)])
	slices.SortFunc(pools, func(a, b executor.Pool) int { return strings.Compare(a.Name, b.Name) })
	r.mu.Lock()
	news := !slices.Equal(pools, r.reporting.pools)
	r.reporting.pools = pools
	r.mu.Unlock()
	if news {
		select {
		case r.reporting.changed <- struct{}{}:
		default:
		}
		r.changed()
	}
}

// keepPools tests the pools until ctx ends. The results are kept for the next agent.
func (r *Runner) keepPools(ctx context.Context) {
	known, err := r.readTested()
	if err != nil {
		r.deps.Log.WarnContext(ctx, "cannot read the results of earlier tests of pools; testing all pools", "error", err.Error())
	}
	// sweep cancels the tests of an earlier agent, which have no folder any more.
	if err := os.RemoveAll(r.probeDir("")); err != nil {
		r.deps.Log.WarnContext(ctx, "cannot remove the folders of earlier tests of pools", "error", err.Error())
	}
	r.mu.Lock()
	maps.Copy(r.reporting.tested, known)
	r.mu.Unlock()
	running := map[executor.Pool]context.CancelFunc{}
	ended := make(chan executor.Pool)
	var tests sync.WaitGroup
	defer tests.Wait()
	for {
		due := r.due()
		for p, cancel := range running {
			if !slices.Contains(due, p) {
				cancel() // the settings of the pool have changed
			}
		}
		for _, p := range due {
			if running[p] != nil {
				continue
			}
			own, cancel := context.WithCancel(ctx)
			running[p] = cancel
			tests.Go(func() {
				r.keepTest(own, r.test(own, p))
				select {
				case ended <- p:
				case <-ctx.Done():
				}
			})
		}
		timer := r.deps.Clock.NewTimer(testAgain)
		select {
		case <-ctx.Done():
		case <-r.reporting.changed:
		case <-timer.C():
		case p := <-ended:
			running[p]()
			delete(running, p)
		}
		timer.Stop()
		if ctx.Err() != nil {
			for _, cancel := range running {
				cancel()
			}
			return
		}
	}
}

func (r *Runner) poolsFile() string { return filepath.Join(r.cfg.Folder, "pools.json") }

// testedPools is the content of pools.json. By identifies the agent that has tested the pools.
type testedPools struct {
	By    string                         `json:"by"`
	Pools map[string]executor.PoolReport `json:"pools"`
}

// readTested returns the results of earlier tests. Those of an agent with another program or other settings for isolation
// do not count.
func (r *Runner) readTested() (map[string]executor.PoolReport, error) {
	var t testedPools
	err := localfile.ReadJSON(r.poolsFile(), &t)
	if errors.Is(err, fs.ErrNotExist) || err == nil && t.By != r.tester() {
		return nil, nil
	}
	return t.Pools, err
}

// tester identifies the agent by what decides the results of its tests.
func (r *Runner) tester() string {
	place, err := json.Marshal(r.cfg.Place)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(place, r.cfg.Program...))
	return hex.EncodeToString(sum[:])
}

// probeDir returns the folder of a test, or that of all tests if the name is empty.
func (r *Runner) probeDir(name string) string { return filepath.Join(r.cfg.Folder, "probes", name) }

// due returns the pools that must be tested now.
func (r *Runner) due() (due []executor.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.reporting.pools {
		known, ok := r.reporting.tested[p.Name]
		again := passedAgain
		if known.Problem != "" {
			again = testAgain
		}
		if !ok || known.Slurm != p.Slurm || clock.Since(r.deps.Clock, known.TestedAt) >= again {
			due = append(due, p)
		}
	}
	return due
}

// keepTest saves the result of a test, unless ctx has ended.
func (r *Runner) keepTest(ctx context.Context, tested executor.PoolReport) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.reporting.tested[tested.Pool] = tested
	err := localfile.WriteJSON(r.poolsFile(), testedPools{By: r.tester(), Pools: r.reporting.tested}, localfile.PrivateMode)
	r.mu.Unlock()
	if err != nil {
		r.deps.Log.WarnContext(ctx, "cannot save the result of the test of a pool", "pool", tested.Pool, "error", err.Error())
	}
	r.changed()
}

// test tests a pool: whether its folder is the agent's, whether Slurm accepts a job with its settings, whether a node sees
// the folder and can run the agent's program, and how the node isolates works.
func (r *Runner) test(ctx context.Context, p executor.Pool) executor.PoolReport {
	report := executor.PoolReport{Pool: p.Name, Slurm: p.Slurm}
	probe, err := r.probe(ctx, p)
	report.TestedAt = r.deps.Clock.Now()
	if err != nil {
		report.Problem = executor.Tail(err.Error(), maxProblem)
		return report
	}
	report.Isolation, report.ClosesNetwork = string(probe.Boundary.Kind), probe.Boundary.ClosesNetwork
	if probe.Boundary.Problem != "" {
		report.Problem = executor.Tail("node "+probe.Node+" does not isolate works: "+probe.Boundary.Problem, maxProblem)
	}
	return report
}

func (r *Runner) probe(ctx context.Context, p executor.Pool) (result rank.Probe, err error) {
	if filepath.Clean(p.Slurm.Folder) != filepath.Clean(r.cfg.Shared) {
		return result, fmt.Errorf("the folder of the pool is %s, but the agent uses %s; change one of them (SERVICE_AGENT_SLURM_FOLDER)", p.Slurm.Folder, r.cfg.Shared)
	}
	if err := r.checkUser(ctx, p.Slurm); err != nil {
		return result, err
	}
	sum := sha256.Sum256([]byte(fmt.Sprint(p, r.deps.Clock.Now().UnixNano())))
	name := hex.EncodeToString(sum[:8])
	dir := r.probeDir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return result, fmt.Errorf("create the folder of the test: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // if this fails, an empty folder remains
	if err := (rank.Question{Place: r.cfg.Place}).Write(dir); err != nil {
		return result, err
	}
	text := "#!/bin/sh\nunset SLURM_EXPORT_ENV\n" + searchPath(r.cfg.Environ) + "exec " + quote(r.cfg.Program) + " rank --probe " + quote(dir) + "\n"
	const executable = 0o700
	if err := localfile.Write(scriptFile(dir), []byte(text), executable); err != nil {
		return result, err
	}
	args := []string{
		"--parsable", "--job-name=signalbox-test", "--comment=" + r.commentPrefix() + probePrefix + name, "--no-requeue", "--export=NONE", "--propagate=NONE",
		"--chdir=" + dir, "--input=/dev/null", "--output=" + filepath.Join(dir, "slurm.log"), "--open-mode=append", fmt.Sprintf("--time=%d", int(testTime.Minutes())),
	}
	args = append(append(args, partArguments(executor.BatchPart{Nodes: 1, Slurm: p.Slurm})...), scriptFile(dir))
	r.watch(1)
	defer r.watch(-1)
	id, err := r.submitProbe(ctx, args)
	if err != nil {
		return result, err
	}
	return r.awaitProbe(ctx, dir, id)
}

// submitProbe submits a test and returns the id of its job. It waits while Slurm accepts no jobs; the report of the cluster
// then states why.
func (r *Runner) submitProbe(ctx context.Context, args []string) (id string, err error) {
	for {
		out, err := r.deps.Commands.Run(ctx, "sbatch", args...)
		refused, ok := errors.AsType[*CommandError](err)
		switch {
		case err == nil:
			return parseID(string(out))
		case ok && !passing(refused):
			return "", fmt.Errorf("submit the test: %s", refusal(refused))
		case !ok && !errors.Is(err, ErrTimeout):
			return "", fmt.Errorf("submit the test: %w", err)
		}
		if err := clock.Sleep(ctx, r.deps.Clock, submitAgain); err != nil {
			return "", fmt.Errorf("submit the test: %w", err)
		}
	}
}

// awaitProbe waits for the result of the test that the job with the given id runs. The job is cancelled if it takes too
// long after its start, or if ctx ends.
func (r *Runner) awaitProbe(ctx context.Context, dir, id string) (result rank.Probe, err error) {
	began, over := r.deps.Clock.Now(), time.Time{}
	var last Job
	for {
		rank.Refresh(dir)
		result, found, err := rank.ReadProbe(dir)
		if err != nil || found {
			return result, err
		}
		seen, turned := r.latest()
		if j, known := seen.jobs[id]; known {
			last = j
		}
		now := r.deps.Clock.Now()
		if last.Held() {
			began = now
		}
		if last.Ended() && over.IsZero() {
			over = now
		}
		if !over.IsZero() && now.Sub(over) > r.cfg.Settle {
			return result, fmt.Errorf("the test left no result in the shared folder; Slurm ended job %s with state %s; %s", id, last.State, tail(filepath.Join(dir, "slurm.log")))
		}
		if late := now.Sub(began); ctx.Err() != nil || late > testTime {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTime)
			defer cancel()
			return result, errors.Join(fmt.Errorf("the test did not end within %s; Slurm's state of job %s is %s, reason %s", late.Round(time.Second), id, last.State, last.Reason),
				r.cancel(stopping, id))
		}
		timer := r.deps.Clock.NewTimer(testLook)
		select {
		case <-ctx.Done():
		case <-turned:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// tail returns the end of the output of a job, for a message.
func tail(path string) string {
	const most = 512
	f, err := os.Open(path)
	if err != nil {
		return "its node could not write to the folder " + filepath.Dir(path)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return "it has written nothing"
	}
	text := make([]byte, min(info.Size(), most))
	n, _ := f.ReadAt(text, info.Size()-int64(len(text)))
	return "it has written: " + executor.Tail(string(text[:n]), most)
}
