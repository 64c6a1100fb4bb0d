package hardware

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Use is a job that requests profiles and has not ended.
type Use struct {
	JobID    string
	Waiting  bool
	TeamID   string
	RunningS int
	Pools    []job.Pool
}

// Effect describes how a change affects the jobs that request one profile and have not ended.
type Effect struct {
	Profile string   `json:"profile"`
	Why     string   `json:"why"`
	Waiting []string `json:"waiting"` // ids of queued jobs
	Placed  []string `json:"placed"`
}

// Impact returns the effects of a change on jobs that have not ended: requests for profiles that the old configuration
// admits and the new one refuses. The effects are sorted by profile.
func Impact(before, after *Config, uses []Use) []Effect {
	found := map[[2]string]*Effect{}
	var effects []*Effect
	for _, u := range uses {
		hit := map[[2]string]bool{}
		for _, pool := range u.Pools {
			why := lost(before, after, pool, u)
			key := [2]string{pool.Profile, why}
			if why == "" || hit[key] {
				continue
			}
			hit[key] = true
			e := found[key]
			if e == nil {
				e = &Effect{Profile: pool.Profile, Why: why, Waiting: []string{}, Placed: []string{}}
				found[key], effects = e, append(effects, e)
			}
			if u.Waiting {
				e.Waiting = append(e.Waiting, u.JobID)
			} else {
				e.Placed = append(e.Placed, u.JobID)
			}
		}
	}
	out := make([]Effect, len(effects))
	for i, e := range effects {
		slices.Sort(e.Waiting)
		slices.Sort(e.Placed)
		out[i] = *e
	}
	slices.SortFunc(out, func(a, b Effect) int { return strings.Compare(a.Profile+"\x00"+a.Why, b.Profile+"\x00"+b.Why) })
	return out
}

// lost returns why the new configuration refuses a request that the old one admits, or "" if nothing changes for the
// request.
func lost(before, after *Config, pool job.Pool, u Use) string {
	ask := ProfileRequest{Pool: pool, TeamID: u.TeamID, RunningS: u.RunningS}
	if was, ok := before.Profile(pool.Profile); pool.Profile == "" || !ok || was.Refusal(ask) != "" {
		return ""
	}
	now, ok := after.Profile(pool.Profile)
	if !ok {
		return "it is removed"
	}
	return now.Refusal(ask)
}

// DescribeImpact describes an impact in one sentence.
func DescribeImpact(effects []Effect) string {
	parts := make([]string, 0, len(effects))
	for _, e := range effects {
		var jobs []string
		if n := len(e.Waiting); n > 0 {
			jobs = append(jobs, count(n, "queued job"))
		}
		if n := len(e.Placed); n > 0 {
			jobs = append(jobs, count(n, "running job"))
		}
		verb := "use"
		if len(e.Waiting)+len(e.Placed) == 1 {
			verb = "uses"
		}
		parts = append(parts, fmt.Sprintf("%s %s profile %s (%s)", strings.Join(jobs, " and "), verb, e.Profile, e.Why))
	}
	return "impact: " + strings.Join(parts, "; ")
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Digest identifies the impact that a caller confirms. It is computed from the version to be replaced, the new
// document, and the effects.
func Digest(version int64, document []byte, effects []Effect) (string, error) {
	raw, err := json.Marshal(map[string]any{"from": version, "to": json.RawMessage(document), "effects": effects})
	if err != nil {
		return "", fmt.Errorf("encode an impact: %w", err)
	}
	digest, err := canon.Digest(raw)
	if err != nil {
		return "", fmt.Errorf("encode an impact: %w", err)
	}
	return digest, nil
}
