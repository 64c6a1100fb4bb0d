// Package evaluation owns the evaluations of agents that runs report: rollouts of tasks, and the numbers
// that follow from them. It promises that an error of the infrastructure is left out of every number and
// never scored 0; that tasks are known by opaque keys alone; and that the same rollouts always give the
// same numbers, by these formulas.
//
// Tasks are what an evaluation draws, so every mean is one over tasks: of a task's scored rollouts the mean
// is taken, and of these means the mean. Its standard error is the standard deviation of the tasks' means
// over the square root of their number, which for tasks with equally many rollouts is the error clustered by
// task (Liang and Zeger 1986; Miller 2024, "Adding Error Bars to Evals", section 2.2). Its interval of 95 %
// is that of Student's t with one degree of freedom less than there are tasks; pass@k is cut to 0 and 1.
//
// pass@k of a task with n scored rollouts, c of which passed, is 1 - C(n-c, k)/C(n, k) (Chen et al. 2021,
// "Evaluating Large Language Models Trained on Code", equation 1); tasks with fewer than k scored rollouts
// are not in it. Percentiles are linear between ranks (Hyndman and Fan's type 7, numpy's default), bins are
// numpy.histogram's. A comparison pairs the tasks that both runs scored: its interval is the percentile
// bootstrap over tasks (Efron and Tibshirani 1993, chapter 13), drawn from a seed that the two runs' ids make.
package evaluation

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Head is what a run said of its evaluation.
type Head struct {
	Name, Version               string
	Parts                       []byte // JSON object of the parts that are shown as they came
	TasksTotal, RolloutsPerTask *int32
	PassReward                  *float64
	StartedAt                   time.Time
}

// Rollout is one try at a task, as it is stored.
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

// passReward is the least reward that solves a task, where the run told none.
const passReward = 1.0

// passes tells whether a scored rollout solved its task.
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

// task is the scored rollouts of one task.
type task struct {
	key            string
	group          *string
	rewards        []float64
	passed, masked int
}

func (t *task) scored() int { return len(t.rewards) }

// tasks gathers rollouts that come in the order of their tasks.
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

// Interval is an interval of confidence.
type Interval struct{ Low, High float64 }

// Metric is a mean by its name.
type Metric struct {
	Name string
	Mean
}

// Summary is what follows from an evaluation's rollouts.
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

// Usage is what the rollouts used, the masked ones too.
type Usage struct {
	PromptTokens, CompletionTokens, ToolCalls int64
	Cost                                      *float64
	Tokens, Turns, Time                       int // limits hit
}

// Group is the tasks under one name.
type Group struct {
	Name   string
	Tasks  int
	Scored int
	Masked int
	Reward *Mean
	Passed *Mean
}

// Summarise computes the summary of rollouts that come in the order of their tasks and numbers.
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

// measure adds what is counted over rollouts.
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

// powers are the k of pass@k: 1, 2, 4 and so on, and the number of a task's rollouts.
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

// rewardOf is the mean reward.
func rewardOf(tasks []task) *Mean {
	var means []float64
	for i := range tasks {
		if tasks[i].scored() > 0 {
			means = append(means, mean(tasks[i].rewards))
		}
	}
	return meanOf(means)
}

// passAt is pass@k.
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

// partsOf are the mean parts of the reward, by name.
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

// groups are the tasks by group, in the order of their names; tasks without one are in none.
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

// PassName is what pass@k is called.
func PassName(k int) string { return "pass@" + strconv.Itoa(k) }
