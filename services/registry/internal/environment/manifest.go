package environment

import "slices"

// Reward holds the fields of a reward component that Check examines.
type Reward struct {
	Name  string
	Range []float64
}

// Check rejects a manifest that contradicts itself.
func Check(t Taskset, rewards []Reward) error {
	seen := map[string]bool{}
	for _, r := range rewards {
		switch {
		case seen[r.Name]:
			return refused("duplicate reward component %s", r.Name)
		case len(r.Range) == 1 || len(r.Range) == 2 && r.Range[0] >= r.Range[1]:
			return refused("the range of reward component %s must be a minimum and a greater maximum", r.Name)
		}
		seen[r.Name] = true
	}
	return t.check()
}

func (t Taskset) check() error {
	switch {
	case t.Infinite && (t.Count != 0 || len(t.Splits) > 0):
		return refused("an infinite taskset cannot have a count or splits")
	case t.Infinite:
		return nil
	case t.Count == 0:
		return refused("the taskset has no tasks")
	case len(t.Splits) > 0 && t.inSplits() != int64(t.Count):
		return refused("the splits have %d tasks in total; the taskset has %d", t.inSplits(), t.Count)
	}
	return nil
}

func (t Taskset) inSplits() (sum int64) {
	for _, n := range t.Splits {
		sum += int64(n)
	}
	return sum
}

// names returns the sorted names of the splits.
func (t Taskset) names() []string {
	names := make([]string, 0, len(t.Splits))
	for name := range t.Splits {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
