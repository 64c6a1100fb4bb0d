// Package executors tests the main loop of trainings on each kind of executor: hosts with an agent, and a Slurm cluster. One
// table of scenarios runs on both, through the REST API of a complete installation.
package executors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// executor runs the jobs of the pool, on two nodes.
type executor interface {
	// agents are the processes of its agents.
	agents() []*testenv.Process
	// awaitReady waits until both nodes can run jobs.
	awaitReady(h *harness)
	// awaitIdle waits until no process of a job is left.
	awaitIdle(h *harness)
	// node returns the name of the node of an attempt with one rank, or "" if it is not known yet.
	node(h *harness, a attempt) string
	// fail takes away the node on which the first attempt of a job runs. It returns a part of the message with which the
	// attempt ends.
	fail(j *job, node string) (message string)
	// repair brings a node back.
	repair(h *harness, node string)
	// servers are the programs on which the executor depends and that may restart while jobs run, with their restarts.
	servers(h *harness) map[string]func()
	// logs returns the logs of the executor's own programs.
	logs() string
}

// harness is an installation with one executor.
type harness struct {
	*testing.T
	s     *testenv.Installation
	admin *client.Client
	gate  *gate
	// python is an interpreter with PyTorch.
	python string
	executor
}

// pool is the name of the executor's pool.
const pool = "cluster"

// A node that is silent for nodeLease is lost, and its attempts are repeated after fenceTimeout. The default values would
// let the tests wait for two minutes.
const (
	nodeLease    = 5 * time.Second
	fenceTimeout = 10 * time.Second
)

// TestMainLoop runs the same scenarios on hosts and on a real Slurm cluster.
func TestMainLoop(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(h *harness) executor{"host": openHosts, "slurm": openSlurm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &harness{T: t, gate: newGate(t), python: pythonWithTorch(t)}
			h.s = testenv.Single(t, testenv.Options{Env: map[string]string{
				"SERVICE_JOBS_NODE_LEASE": nodeLease.String(), "SERVICE_JOBS_FENCE_TIMEOUT": fenceTimeout.String(),
			}})
			h.admin = h.s.Loop(t.Context()).Client
			h.executor = open(h)
			h.awaitReady(h)
			h.runAll(scenarios)
		})
	}
}

// until polls until the condition is true. The test fails if that takes too long.
func (h *harness) until(what string, condition func() bool) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), testenv.StageTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			require.FailNow(h, "condition not met: "+what, h.tail())
		case <-tick.C:
		}
	}
}

// tail returns the ends of all logs, for failure messages.
func (h *harness) tail() string { return h.s.Tail() + h.logs() }

// createFleet creates a fleet of the given kind that serves the pool. It returns the id of the fleet, and a function that
// creates a join token.
func (h *harness) createFleet(kind string) (id string, joinToken func() string) {
	h.Helper()
	var fleet struct{ ID string }
	require.NoError(h, h.admin.Post(h.Context(), "/api/fleets", map[string]any{"name": pool, "kind": kind, "pools": []string{pool}}, &fleet))
	return fleet.ID, func() string {
		var made struct{ Token string }
		require.NoError(h, h.admin.Post(h.Context(), "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, &made))
		return made.Token
	}
}

// agentSettings are the settings of all agents. Works may reach the gate in addition to the control plane.
func (h *harness) agentSettings() []string {
	return []string{"SERVICE_AGENT_WORK_REACH=" + h.gate.address, "SERVICE_AGENT_PYTHONS=" + torch + "=" + h.python}
}

// restartControlPlane kills signalboxd and starts it again.
func (h *harness) restartControlPlane() {
	h.s.Processes["signalboxd"].Kill()
	h.s.StartSingle()
}
