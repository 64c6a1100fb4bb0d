// Package evaluation owns the evaluations of agents that runs report: the rollouts of tasks and the statistics computed
// from them. It promises that a rollout that failed because of the infrastructure is never scored 0, but excluded from
// every statistic of rewards; that tasks are stored only as opaque keys; and that the same rollouts always give the
// same statistics. The formulas are as follows.
//
// An evaluation is a sample of tasks, so every mean is a mean over tasks: the mean of the tasks' means, where a task's
// mean is the mean of its scored rollouts. The standard error is the standard deviation of the tasks' means divided by
// the square root of the number of tasks. If all tasks have the same number of rollouts, this is the error clustered by
// task (Liang and Zeger 1986; Miller 2024, "Adding Error Bars to Evals", section 2.2). The 95 % interval for n tasks
// uses Student's t with n - 1 degrees of freedom. The interval of pass@k is clipped to the range from 0 to 1.
//
// If c of the n scored rollouts of a task passed, pass@k is 1 - C(n-c, k)/C(n, k) (Chen et al. 2021, "Evaluating Large
// Language Models Trained on Code", equation 1). Tasks with fewer than k scored rollouts are excluded. Percentiles are
// interpolated linearly between ranks (Hyndman and Fan's type 7, numpy's default). Histogram bins are those of
// numpy.histogram. A comparison pairs the tasks that have scored rollouts in both runs. Its interval is the percentile
// bootstrap over tasks (Efron and Tibshirani 1993, chapter 13), with a seed made from the ids of the two runs.
//
// The package also owns validation rounds, whose chunks may arrive in any order and more than once, and benchmark
// scores. A later score never replaces an earlier one.
package evaluation

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Head describes a run's evaluation, apart from its rollouts.
type Head struct {
	Name, Version               string
	Parts                       []byte // JSON object; its members are returned as reported
	TasksTotal, RolloutsPerTask *int32
	PassReward                  *float64
	StartedAt                   time.Time
}

// Rollout is one stored try of an agent at a task. Number distinguishes the tries of a task. Attempt is the attempt of
// the run that reported the rollout.
type Rollout struct {
	Task                           string
	Number, Attempt                int32
	Reward                         *float64
	Passed                         *bool
	Masked                         bool
	Parts                          map[string]float64
	Group, Stop, Error, Trace      *string
	Turns, ToolCalls               *int32
	PromptTokens, CompletionTokens *int64
	Cost, Seconds                  *float64
	At                             time.Time
}

// passReward is the lowest reward at which a rollout solves its task, unless the run reported another threshold.
const passReward = 1.0

// passes reports whether a scored rollout solved its task.
func (h *Head) passes(r *Rollout) bool {
	switch {
	case r.Passed != nil:
		return *r.Passed
	case h.PassReward != nil:
		return *r.Reward >= *h.PassReward
	default:
		return *r.Reward >= passReward
	}
}

// task holds the results of the rollouts of one task.
type task struct {
	key            string
	group          *string
	rewards        []float64
	passed, masked int
}

func (t *task) scored() int { return len(t.rewards) }

// tasks groups rollouts, which must be sorted by task.
func (h *Head) tasks(rollouts []Rollout) []task {
	var out []task
	for i := range rollouts {
		r := &rollouts[i]
		if len(out) == 0 || out[len(out)-1].key != r.Task {
			out = append(out, task{key: r.Task})
		}
		t := &out[len(out)-1]
		t.group = cmp.Or(t.group, r.Group)
		if r.Masked {
			t.masked++
			continue
		}
		t.rewards = append(t.rewards, *r.Reward)
		if h.passes(r) {
			t.passed++
		}
	}
	return out
}

// Mean is a mean over tasks.
type Mean struct {
	Value  float64
	Stderr *float64
	CI     *Interval
	Tasks  int
}

// Interval is a 95 % confidence interval.
type Interval struct{ Low, High float64 }

// Metric is a named mean.
type Metric struct {
	Name string
	Mean
}

// Summary holds the statistics of an evaluation's rollouts.
type Summary struct {
	Tasks, TasksCompleted, TasksErrored, TasksMasked int
	PerTask, Scored, Masked                          int
	Reward                                           *Mean
	Rewards                                          *Distribution
	Parts                                            []Metric
	PassAt                                           map[int]Mean
	Groups                                           []Group
	Usage                                            Usage
	Turns, Seconds                                   *Distribution
}

// Usage is the total usage of all rollouts, including masked ones.
type Usage struct {
	PromptTokens, CompletionTokens, ToolCalls int64
	Cost                                      *float64
	Tokens, Turns, Time                       int // number of rollouts that hit each limit
}

// Group holds the statistics of the tasks that have the same group name.
type Group struct {
	Name   string
	Tasks  int
	Scored int
	Masked int
	Reward *Mean
	Passed *Mean
}

// Summarise computes the statistics of rollouts, which must be sorted by task and number.
func (h *Head) Summarise(rollouts []Rollout) *Summary {
	tasks := h.tasks(rollouts)
	s := &Summary{PassAt: map[int]Mean{}, Reward: rewardOf(tasks), Groups: groups(tasks), Parts: partsOf(rollouts)}
	most := 0
	for i := range tasks {
		t := &tasks[i]
		most = max(most, t.scored()+t.masked)
		s.Scored, s.Masked = s.Scored+t.scored(), s.Masked+t.masked
	}
	if s.PerTask = most; h.RolloutsPerTask != nil {
		s.PerTask = int(*h.RolloutsPerTask)
	}
	if s.Tasks = len(tasks); h.TasksTotal != nil {
		s.Tasks = int(*h.TasksTotal)
	}
	for i := range tasks {
		t := &tasks[i]
		if t.masked > 0 {
			s.TasksErrored++
		}
		switch {
		case t.scored() == 0:
			s.TasksMasked++
		case t.scored() >= s.PerTask:
			s.TasksCompleted++
		}
	}
	for _, k := range powers(s.PerTask) {
		if m := passAt(tasks, k); m != nil {
			s.PassAt[k] = *m
		}
	}
	s.measure(rollouts)
	return s
}

// measure adds the usage and the distributions of rollouts to s.
func (s *Summary) measure(rollouts []Rollout) {
	var rewards, turns, seconds []float64
	for i := range rollouts {
		r := &rollouts[i]
		s.Usage.add(r)
		if r.Masked {
			continue
		}
		rewards = append(rewards, *r.Reward)
		if r.Turns != nil {
			turns = append(turns, float64(*r.Turns))
		}
		if r.Seconds != nil {
			seconds = append(seconds, *r.Seconds)
		}
	}
	s.Rewards, s.Turns, s.Seconds = distribution(rewards), distribution(turns), distribution(seconds)
}

func (u *Usage) add(r *Rollout) {
	u.PromptTokens += value(r.PromptTokens)
	u.CompletionTokens += value(r.CompletionTokens)
	u.ToolCalls += int64(value(r.ToolCalls))
	if r.Cost != nil {
		u.Cost = new(value(u.Cost) + *r.Cost)
	}
	switch value(r.Stop) {
	case "max_tokens":
		u.Tokens++
	case "max_turns":
		u.Turns++
	case "timeout":
		u.Time++
	}
}

// powers returns the values of k for which pass@k is computed. For n rollouts per task, these are the powers of two
// below n, and n itself.
func powers(most int) []int {
	var ks []int
	for k := 1; k < most; k *= 2 {
		ks = append(ks, k)
	}
	if most > 0 {
		ks = append(ks, most)
	}
	return ks
}

// rewardOf returns the mean over tasks of each task's mean reward, or nil if no rollout is scored.
func rewardOf(tasks []task) *Mean {
	var means []float64
	for i := range tasks {
		if tasks[i].scored() > 0 {
			means = append(means, mean(tasks[i].rewards))
		}
	}
	return meanOf(means)
}

// passAt returns pass@k, or nil if no task has k scored rollouts.
func passAt(tasks []task, k int) *Mean {
	var chances []float64
	for i := range tasks {
		if n := tasks[i].scored(); n >= k {
			chances = append(chances, chance(n, tasks[i].passed, k))
		}
	}
	m := meanOf(chances)
	if m != nil && m.CI != nil {
		m.CI = &Interval{Low: max(0, m.CI.Low), High: min(1, m.CI.High)}
	}
	return m
}

// partsOf returns the mean over tasks of each part of the reward, sorted by name.
func partsOf(rollouts []Rollout) []Metric {
	means := map[string][]float64{}
	for i := 0; i < len(rollouts); {
		ofTask := map[string][]float64{}
		key := rollouts[i].Task
		for ; i < len(rollouts) && rollouts[i].Task == key; i++ {
			if rollouts[i].Masked {
				continue
			}
			for name, v := range rollouts[i].Parts {
				ofTask[name] = append(ofTask[name], v)
			}
		}
		for name, values := range ofTask {
			means[name] = append(means[name], mean(values))
		}
	}
	out := make([]Metric, 0, len(means))
	for name, values := range means {
		out = append(out, Metric{Name: name, Mean: *meanOf(values)})
	}
	slices.SortFunc(out, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// groups returns the statistics of each group, sorted by name. Tasks without a group are left out.
func groups(tasks []task) []Group {
	by := map[string][]task{}
	for _, t := range tasks {
		if t.group != nil {
			by[*t.group] = append(by[*t.group], t)
		}
	}
	out := make([]Group, 0, len(by))
	for name, members := range by {
		g := Group{Name: name, Tasks: len(members), Reward: rewardOf(members), Passed: passAt(members, 1)}
		for i := range members {
			g.Scored, g.Masked = g.Scored+members[i].scored(), g.Masked+members[i].masked
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func value[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

// PassName returns the name of the metric pass@k.
func PassName(k int) string { return "pass@" + strconv.Itoa(k) }
