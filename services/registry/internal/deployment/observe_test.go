package deployment_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
)

// at is an observation of a work that is placed.
func at(phase deployment.Phase, report *deployment.Report, exit *deployment.Exit) deployment.Observation {
	return deployment.Observation{NodeID: "nod_1", Phase: phase, Report: report, Exit: exit}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		running = deployment.PhaseRunning
		exited  = deployment.PhaseExited
	)
	report := func(phase, code string, ready bool) *deployment.Report {
		return &deployment.Report{Phase: phase, Code: code, Ready: ready, Log: "log"}
	}
	cases := map[string]struct {
		seen   deployment.Observation
		fresh  deployment.State // of a revision that never was ready
		served deployment.State // of one that was
		reason string
		again  bool // the engine of one that was ready is asked for anew
	}{
		"nothing known":     {deployment.Observation{}, deployment.Pending, deployment.NotReady, "pending/waiting", false},
		"no place":          {deployment.Observation{Waiting: "no_capacity"}, deployment.Pending, deployment.NotReady, "pending/no_capacity", false},
		"placed":            {at(deployment.PhaseNone, nil, nil), deployment.Pending, deployment.NotReady, "pending/placed", false},
		"told":              {at(deployment.PhasePending, nil, nil), deployment.Pending, deployment.NotReady, "pending/placed", false},
		"preparing":         {at(deployment.PhasePreparing, nil, nil), deployment.Preparing, deployment.NotReady, "preparing/preparing", false},
		"started":           {at(running, nil, nil), deployment.Starting, deployment.NotReady, "starting/starting", false},
		"starting":          {at(running, report("starting", "", false), nil), deployment.Starting, deployment.NotReady, "starting/starting", false},
		"probing":           {at(running, report("probing", "stream_buffered", false), nil), deployment.Probing, deployment.NotReady, "probing/stream_buffered", false},
		"ready":             {at(running, report("ready", "", true), nil), deployment.Ready, deployment.Ready, "", false},
		"says ready, isn't": {at(running, report("ready", "", false), nil), deployment.Starting, deployment.NotReady, "starting/starting", false},
		"given up":          {at(running, report("failed", "generate_failed", false), nil), deployment.Failed, deployment.NotReady, "probing/generate_failed", false},
		"collecting, ready": {at(deployment.PhaseCollecting, report("probing", "", false), nil), deployment.Probing, deployment.NotReady, "probing/probing", false},
		"no environment":    {at(exited, nil, &deployment.Exit{Reason: "env_build"}), deployment.Failed, deployment.NotReady, "preparing/env_build", true},
		"no bytes":          {at(exited, report("starting", "weights_mismatch", false), &deployment.Exit{Reason: "fetch"}), deployment.Failed, deployment.NotReady, "preparing/weights_mismatch", true},
		"died":              {at(exited, nil, &deployment.Exit{Code: 1}), deployment.Failed, deployment.NotReady, "starting/engine_exited", true},
		"never served":      {at(exited, report("failed", "generate_failed", false), &deployment.Exit{Reason: "start"}), deployment.Failed, deployment.NotReady, "probing/generate_failed", true},
		"stopped":           {at(exited, nil, &deployment.Exit{Reason: "stopped"}), deployment.Pending, deployment.NotReady, "pending/engine_lost", false},
		"lost":              {at(exited, nil, &deployment.Exit{Reason: "lost"}), deployment.Pending, deployment.NotReady, "pending/engine_lost", false},
		"gone":              {at(deployment.PhaseGone, nil, nil), deployment.Pending, deployment.NotReady, "pending/engine_lost", false},
	}
	once := time.Unix(1, 0)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fresh := deployment.Judge(&deployment.Revision{}, c.seen)
			served := deployment.Judge(&deployment.Revision{ReadyAt: &once}, c.seen)
			require.Equal(t, c.fresh, fresh.State)
			require.Equal(t, c.served, served.State)
			require.False(t, fresh.Again)
			require.Equal(t, c.again, served.Again)
			for _, v := range []deployment.Verdict{fresh, served} {
				if c.reason == "" {
					require.Nil(t, v.Reason)
					continue
				}
				require.Equal(t, c.reason, v.Reason.Short())
			}
		})
	}
}

func TestAReasonInWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, "probing/generate_failed: no token", (&deployment.Reason{Phase: "probing", Code: "generate_failed", Message: "no token"}).Text())
	require.Equal(t, "probing/generate_failed", (&deployment.Reason{Phase: "probing", Code: "generate_failed"}).Text())
	require.Equal(t, "probing", (&deployment.Reason{Phase: "probing"}).Text())
}
