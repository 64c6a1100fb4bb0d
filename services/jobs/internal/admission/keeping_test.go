package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

func TestGates_goalOfBestCheckpoint(t *testing.T) {
	t.Parallel()
	run := func(key, goal string) (string, error) {
		d := draft()
		d.Spec.Checkpoint.KeepBest, d.Spec.Checkpoint.KeepBestGoal = key, goal
		err := Run(submitting(t, d), newInputs().Gates(), d)
		return d.Spec.Checkpoint.KeepBestGoal, err
	}
	for _, c := range []struct{ key, goal, want string }{
		{"", "", ""},
		{"train/loss", "", jobspec.GoalMinimize},
		{"train/loss", jobspec.GoalMaximize, jobspec.GoalMaximize},
		{"my/score", jobspec.GoalMaximize, jobspec.GoalMaximize},
	} {
		got, err := run(c.key, c.goal)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "the goal of the job counts, then that of the recipe: %v", c)
	}
	_, err := run("my/score", "")
	require.Equal(t, fault.Refused, fault.From(err).Kind)
	require.Equal(t, Recipe, fault.From(err).Code)
	require.Equal(t, `recipe_handshake: demo/chat-tiny does not state which values of "my/score" in spec.checkpoint.keep_best are better; `+
		"set spec.checkpoint.keep_best_goal to minimize or maximize", fault.From(err).Text())
}
