package revision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// at is an observation of a placed work.
func at(phase revision.Phase, report *revision.Report, exit *revision.Exit) revision.Observation {
	return revision.Observation{NodeID: "nod_1", Phase: phase, Report: report, Exit: exit}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	const (
		running = revision.PhaseRunning
		exited  = revision.PhaseExited
	)
	report := func(phase, code string, ready bool) *revision.Report {
		return &revision.Report{Phase: phase, Code: code, Ready: ready, Log: "log"}
	}
	cases := map[string]struct {
		seen   revision.Observation
		fresh  revision.State // state of a revision that was never ready
		served revision.State // state of a revision that was ready before
		reason string
		again  bool // the engine of a revision that was ready before is ordered again
	}{
		"nothing known":      {revision.Observation{}, revision.Pending, revision.NotReady, "pending/waiting", false},
		"not considered":     {revision.Observation{Waiting: "starting"}, revision.Pending, revision.NotReady, "pending/starting", false},
		"no team quota":      {revision.Observation{Waiting: "team_quota"}, revision.Pending, revision.NotReady, "pending/team_quota", false},
		"no quota":           {revision.Observation{Waiting: "account_quota"}, revision.Pending, revision.NotReady, "pending/account_quota", false},
		"no capacity":        {revision.Observation{Waiting: "no_capacity"}, revision.Pending, revision.NotReady, "pending/no_capacity", false},
		"placed":             {at(revision.PhaseNone, nil, nil), revision.Pending, revision.NotReady, "pending/placed", false},
		"pending":            {at(revision.PhasePending, nil, nil), revision.Pending, revision.NotReady, "pending/placed", false},
		"preparing":          {at(revision.PhasePreparing, nil, nil), revision.Preparing, revision.NotReady, "preparing/preparing", false},
		"started":            {at(running, nil, nil), revision.Starting, revision.NotReady, "starting/starting", false},
		"starting":           {at(running, report("starting", "", false), nil), revision.Starting, revision.NotReady, "starting/starting", false},
		"probing":            {at(running, report("probing", "stream_buffered", false), nil), revision.Probing, revision.NotReady, "probing/stream_buffered", false},
		"ready":              {at(running, report("ready", "", true), nil), revision.Ready, revision.Ready, "", false},
		"phase ready only":   {at(running, report("ready", "", false), nil), revision.Starting, revision.NotReady, "starting/starting", false},
		"probes failed":      {at(running, report("failed", "generate_failed", false), nil), revision.Failed, revision.NotReady, "probing/generate_failed", false},
		"collecting, ready":  {at(revision.PhaseCollecting, report("probing", "", false), nil), revision.Probing, revision.NotReady, "probing/probing", false},
		"environment failed": {at(exited, nil, &revision.Exit{Reason: "env_build"}), revision.Failed, revision.NotReady, "preparing/env_build", true},
		"fetch failed":       {at(exited, report("starting", "weights_mismatch", false), &revision.Exit{Reason: "fetch"}), revision.Failed, revision.NotReady, "preparing/weights_mismatch", true},
		"died":               {at(exited, nil, &revision.Exit{Code: 1}), revision.Failed, revision.NotReady, "starting/engine_exited", true},
		"never served":       {at(exited, report("failed", "generate_failed", false), &revision.Exit{Reason: "start"}), revision.Failed, revision.NotReady, "probing/generate_failed", true},
		"stopped":            {at(exited, nil, &revision.Exit{Reason: "stopped"}), revision.Pending, revision.NotReady, "pending/engine_lost", false},
		"lost":               {at(exited, nil, &revision.Exit{Reason: "lost"}), revision.Pending, revision.NotReady, "pending/engine_lost", false},
		"gone":               {at(revision.PhaseGone, nil, nil), revision.Pending, revision.NotReady, "pending/engine_lost", false},
	}
	once := time.Unix(1, 0)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fresh := revision.Evaluate(&revision.Revision{}, c.seen)
			served := revision.Evaluate(&revision.Revision{ReadyAt: &once}, c.seen)
			require.Equal(t, c.fresh, fresh.State)
			require.Equal(t, c.served, served.State)
			require.False(t, fresh.Again)
			require.Equal(t, c.again, served.Again)
			for _, v := range []revision.Verdict{fresh, served} {
				if c.reason == "" {
					require.Nil(t, v.Reason)
					continue
				}
				require.Equal(t, c.reason, v.Reason.Short())
			}
		})
	}
}

// An engine that serves a protected model may print texts of the model's file.
func TestEvaluate_protectedModelWithholdsTexts(t *testing.T) {
	t.Parallel()
	report := &revision.Report{Phase: "failed", Code: "engine_exited", Message: "planted", Log: "planted", Probes: []byte(`{"text":"planted"}`)}
	for name, seen := range map[string]revision.Observation{
		"failed probe": at(revision.PhaseRunning, report, nil),
		"exited":       at(revision.PhaseExited, report, &revision.Exit{Code: 1, Message: "planted"}),
		"fetch failed": at(revision.PhaseExited, nil, &revision.Exit{Code: 1, Reason: "fetch", Message: "planted"}),
		"preparing":    {NodeID: "nod_1", Phase: revision.PhasePreparing, Detail: "planted", Report: &revision.Report{Message: "planted"}},
	} {
		for _, protected := range []bool{false, true} {
			r := &revision.Revision{Plan: revision.Plan{Protected: protected}}
			v := revision.Evaluate(r, seen)
			r.Note(seen)
			require.Equal(t, !protected, strings.Contains(v.Reason.Text()+v.Reason.Log+string(r.Probes), "planted"), "%s: %v", name, v.Reason)
		}
	}
}

func TestReason_Text(t *testing.T) {
	t.Parallel()
	require.Equal(t, "probing/generate_failed: no token", (&revision.Reason{Phase: "probing", Code: "generate_failed", Message: "no token"}).Text())
	require.Equal(t, "probing/generate_failed", (&revision.Reason{Phase: "probing", Code: "generate_failed"}).Text())
	require.Equal(t, "probing", (&revision.Reason{Phase: "probing"}).Text())
}
