package evaluation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// scored returns a rollout with a reward.
func scored(task string, number int32, reward float64) Rollout {
	return Rollout{Task: task, Number: number, Reward: &reward}
}

func masked(task string, number int32) Rollout {
	return Rollout{Task: task, Number: number, Masked: true, Error: new("sandbox")}
}

func TestHead_Summarise_masksInfrastructureErrors(t *testing.T) {
	t.Parallel()
	h := &Head{}
	s := h.Summarise([]Rollout{
		scored("a", 0, 1), scored("a", 1, 1), scored("b", 0, 1), masked("b", 1), masked("c", 0), masked("c", 1),
	})
	require.Equal(t, []int{3, 1, 2, 1, 2, 3, 3}, []int{s.Tasks, s.TasksCompleted, s.TasksErrored, s.TasksMasked, s.PerTask, s.Scored, s.Masked})
	require.InDelta(t, 1, s.Reward.Value, 0, "masked rollouts are excluded from the mean")
	require.Equal(t, 2, s.Reward.Tasks)
	require.InDelta(t, 1, s.PassAt[1].Value, 0)
	require.Equal(t, 1, s.PassAt[2].Tasks, "a task with fewer than k scored rollouts is excluded from pass@k")
	require.Len(t, s.Rewards.Bins, 10)
}

func TestHead_Summarise_meanIsOverTasks(t *testing.T) {
	t.Parallel()
	h := &Head{}
	s := h.Summarise([]Rollout{scored("a", 0, 0), scored("a", 1, 0), scored("a", 2, 0), scored("b", 0, 1)})
	require.InDelta(t, 0.5, s.Reward.Value, 0, "the mean is over tasks, not over rollouts")
	require.InDelta(t, 0.25, s.Rewards.Mean, 0)
	require.Equal(t, 1, s.TasksCompleted, "task b is not completed: it has one of three rollouts")
}

func TestHead_passes_reportedOrFromReward(t *testing.T) {
	t.Parallel()
	passed := scored("a", 0, 0)
	passed.Passed = new(true)
	failed := scored("b", 0, 5)
	failed.Passed = new(false)
	for name, c := range map[string]struct {
		head Head
		of   Rollout
		want bool
	}{
		"reported as passed":       {Head{}, passed, true},
		"reported as failed":       {Head{}, failed, false},
		"full reward":              {Head{}, scored("a", 0, 1), true},
		"below full reward":        {Head{}, scored("a", 0, 0.999), false},
		"at the pass reward":       {Head{PassReward: new(0.5)}, scored("a", 0, 0.5), true},
		"below the pass reward":    {Head{PassReward: new(0.5)}, scored("a", 0, 0.49), false},
		"at a pass reward of zero": {Head{PassReward: new(0.0)}, scored("a", 0, 0), true},
	} {
		require.Equal(t, c.want, c.head.passes(&c.of), name)
	}
}

func TestHead_Summarise_reportedTotalsCount(t *testing.T) {
	t.Parallel()
	h := &Head{TasksTotal: new(int32(5)), RolloutsPerTask: new(int32(2))}
	s := h.Summarise([]Rollout{scored("a", 0, 1), scored("a", 1, 0), scored("b", 0, 1)})
	require.Equal(t, []int{5, 2, 1}, []int{s.Tasks, s.PerTask, s.TasksCompleted})
	none := h.Summarise(nil)
	require.Equal(t, 5, none.Tasks)
	require.Nil(t, none.Reward)
	require.Nil(t, none.Rewards)
	require.Empty(t, none.PassAt)
	require.Equal(t, 0, (&Head{}).Summarise(nil).PerTask)
}

func TestPowers_returnsPowersOfTwoAndLast(t *testing.T) {
	t.Parallel()
	for most, want := range map[int][]int{0: nil, 1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 8: {1, 2, 4, 8}, 10: {1, 2, 4, 8, 10}} {
		require.Equal(t, want, powers(most), most)
	}
}

func TestHead_Summarise_groupsTasks(t *testing.T) {
	t.Parallel()
	in := func(group string, r Rollout) Rollout {
		r.Group = &group
		return r
	}
	s := (&Head{}).Summarise([]Rollout{
		in("easy", scored("a", 0, 1)), in("easy", scored("b", 0, 0)), in("hard", masked("c", 0)), in("hard", scored("d", 0, 0)), scored("e", 0, 1),
	})
	require.Len(t, s.Groups, 2)
	easy, hard := s.Groups[0], s.Groups[1]
	require.Equal(t, []any{"easy", 2, 2, 0}, []any{easy.Name, easy.Tasks, easy.Scored, easy.Masked})
	require.InDelta(t, 0.5, easy.Reward.Value, 0)
	require.InDelta(t, 0.5, easy.Passed.Value, 0)
	require.Equal(t, []any{"hard", 2, 1, 1}, []any{hard.Name, hard.Tasks, hard.Scored, hard.Masked})
	require.Nil(t, hard.Reward.CI)
}

func TestHead_Summarise_sumsPartsAndUsage(t *testing.T) {
	t.Parallel()
	one, two, off := scored("a", 0, 1), scored("b", 0, 0), masked("c", 0)
	one.Parts, two.Parts, off.Parts = map[string]float64{"format": 1, "answer": 0.5}, map[string]float64{"format": 0}, map[string]float64{"format": 9}
	one.Turns, one.ToolCalls, one.PromptTokens, one.Seconds, one.Stop = new(int32(3)), new(int32(7)), new(int64(100)), new(1.5), new("max_turns")
	two.CompletionTokens, two.Cost, two.Stop = new(int64(9)), new(0.25), new("max_tokens")
	off.PromptTokens, off.Cost, off.Stop, off.Turns = new(int64(1)), new(0.5), new("timeout"), new(int32(99))
	s := (&Head{}).Summarise([]Rollout{one, two, off})
	require.Equal(t, []string{"answer", "format"}, []string{s.Parts[0].Name, s.Parts[1].Name})
	require.Equal(t, []any{0.5, 1, 0.5, 2}, []any{s.Parts[0].Value, s.Parts[0].Tasks, s.Parts[1].Value, s.Parts[1].Tasks})
	require.Equal(t, Usage{PromptTokens: 101, CompletionTokens: 9, ToolCalls: 7, Cost: new(0.75), Tokens: 1, Turns: 1, Time: 1}, s.Usage)
	require.InDelta(t, 3, s.Turns.Max, 0, "the turns of a masked rollout are excluded")
	require.InDelta(t, 1.5, s.Seconds.Mean, 0)
	require.Nil(t, (&Head{}).Summarise([]Rollout{scored("a", 0, 1)}).Usage.Cost, "an unreported cost is not 0")
}

func TestPassAt_intervalClippedToZeroAndOne(t *testing.T) {
	t.Parallel()
	rollouts := []Rollout{scored("a", 0, 1), scored("b", 0, 1), scored("c", 0, 0)}
	m := (&Head{}).Summarise(rollouts).PassAt[1]
	require.InDelta(t, 2.0/3, m.Value, 1e-15)
	require.Equal(t, []float64{0, 1}, []float64{m.CI.Low, m.CI.High})
}

func TestCompare_pairsTasks(t *testing.T) {
	t.Parallel()
	ours := []Rollout{scored("a", 0, 1), scored("b", 0, 0), scored("b", 1, 1), scored("c", 0, 0), scored("d", 0, 1), masked("e", 0)}
	theirs := []Rollout{scored("a", 0, 0), scored("b", 0, 0.5), scored("c", 0, 1), scored("e", 0, 1), scored("f", 0, 1)}
	c := Compare(ours, theirs, "x")
	require.Equal(t, []int{3, 1, 1, 1}, []int{c.Tasks, c.Wins, c.Losses, c.Ties}, "only tasks with scored rollouts in both runs count")
	require.InDelta(t, 0, *c.Delta, 1e-15)
	require.LessOrEqual(t, -1.0, c.CI.Low)
	require.Less(t, c.CI.Low, c.CI.High)
	apart := Compare(ours[:1], theirs[4:], "x")
	require.Nil(t, apart.Delta)
	require.Zero(t, apart.Tasks)
	one := Compare(ours[:1], theirs[:1], "x")
	require.InDelta(t, 1, *one.Delta, 0)
	require.Nil(t, one.CI, "one task has no interval")
}
