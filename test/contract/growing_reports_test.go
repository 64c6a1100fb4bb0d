package contract

import "fmt"

// round is the step of the validation round whose samples are reported in chunks.
const round = 1

// ofReports returns, by path, how to grow each list of a run's reports. Each list has one path with the
// job's id and one with the run's id.
func ofReports() map[string]func(g *grower) growth {
	out := map[string]func(g *grower) growth{
		"/api/agent-evaluations/{run_id}/items": func(g *grower) growth {
			return growth{path: "/api/agent-evaluations/" + g.run.run + "/items", by: "task", comes: behind, add: func(n int) {
				rollout := map[string]any{"task": fmt.Sprintf("%032d", n), "rollout": 0, "reward": 1}
				g.run.report("benchmark", map[string]any{"name": "growing", "rollouts": []any{rollout}})
			}}
		},
	}
	for name, of := range map[string]func(g *grower) growth{
		"artifacts": artifacts, "benchmarks": benchmarks, "environment/nodes": nodes, "hardware": hardware, "hparams/history": corrections,
		"logs": lines, "metrics": metrics, "samples": samples, "validations": validations,
	} {
		out["/api/jobs/{id}/"+name] = func(g *grower) growth {
			list := of(g)
			list.path = "/api/jobs/" + g.run.job + "/" + name + list.path
			return list
		}
		out["/api/runs/{id}/"+name] = func(g *grower) growth {
			list := of(g)
			list.path = "/api/runs/" + g.run.run + "/" + name + list.path
			return list
		}
	}
	return out
}

const reportedAt = "2026-11-21T03:00:00+00:00"

func artifacts(g *grower) growth {
	return growth{comes: behind, add: func(n int) {
		g.run.report("artifact", map[string]any{"kind": "eval_report", "path": "/data/" + rowName(n), "format": "json"})
	}}
}

func benchmarks(g *grower) growth {
	return growth{comes: behind, add: func(n int) {
		g.run.report("benchmark", map[string]any{"name": rowName(n), "metric": "exact_match", "value": 0.5})
	}}
}

func nodes(g *grower) growth {
	return growth{by: "rank", comes: behind, add: func(n int) {
		g.run.report("environment/nodes", map[string]any{"nodes": []any{map[string]any{"rank": n, "host": rowName(n)}}})
	}}
}

func hardware(g *grower) growth {
	return growth{by: "key", comes: behind, add: func(n int) {
		g.run.report("hardware", map[string]any{"points": []any{map[string]any{"ts": reportedAt, "node": "n0", "key": rowName(n), "value": 1}}})
	}}
}

// corrections grows the list of hyperparameter corrections: it reports a hyperparameter once, and then a
// new value for each row.
func corrections(g *grower) growth {
	report := func(value any) { g.run.report("hparams", map[string]any{"params": map[string]any{"corrected": value}}) }
	report("at first, of " + g.Name())
	return growth{by: "value", comes: inFront, add: func(n int) { report(n) }}
}

func lines(g *grower) growth {
	return growth{by: "text", comes: behind, add: func(n int) { g.run.report("logs", map[string]any{"chunks": []string{rowName(n) + "\n"}}) }}
}

func metrics(g *grower) growth {
	return growth{by: "key", comes: behind, add: func(n int) {
		g.run.report("metrics", map[string]any{"points": []any{map[string]any{"key": rowName(n), "step": 1, "value": 1, "ts": reportedAt}}})
	}}
}

func samples(g *grower) growth {
	return growth{path: fmt.Sprint("?step=", round), by: "user", comes: behind, add: func(n int) {
		g.run.report("validation", map[string]any{
			"step": round, "chunk_index": n, "total_chunks": 1000, "samples": []any{map[string]any{"user": rowName(n), "assistant": "x", "reward": 1}},
		})
	}}
}

func validations(g *grower) growth {
	return growth{by: "step", comes: behind, add: func(n int) {
		g.run.report("validation", map[string]any{"step": round + n, "chunk_index": 0, "total_chunks": 1, "samples": []any{}})
	}}
}
