package contract

import "fmt"

// round is the step of the validation round whose samples are reported in chunks.
const round = 1

// reportLists maps the path of each list of a run's reports to a function that describes how to add rows to the list.
// Each list except the items of an agent evaluation has one path with the job's id and one with the run's id.
func reportLists() map[string]func(g *listGrower) growingList {
	out := map[string]func(g *listGrower) growingList{
		"/api/agent-evaluations/{run_id}/items": func(g *listGrower) growingList {
			return growingList{path: "/api/agent-evaluations/" + g.run.run + "/items", by: "task", position: atEnd, add: func(n int) {
				rollout := map[string]any{"task": fmt.Sprintf("%032d", n), "rollout": 0, "reward": 1}
				g.run.report("benchmark", map[string]any{"name": "growing", "rollouts": []any{rollout}})
			}}
		},
	}
	for name, of := range map[string]func(g *listGrower) growingList{
		"artifacts": artifacts, "benchmarks": benchmarks, "download": files, "environment/nodes": nodes, "hardware": hardware,
		"hparams/history": corrections, "logs": lines, "metrics": metrics, "metrics/summary": metrics, "samples": samples, "series": metrics,
		"validations": validations,
	} {
		out["/api/jobs/{id}/"+name] = func(g *listGrower) growingList {
			list := of(g)
			list.path = "/api/jobs/" + g.run.job + "/" + name + list.path
			return list
		}
		out["/api/runs/{id}/"+name] = func(g *listGrower) growingList {
			list := of(g)
			list.path = "/api/runs/" + g.run.run + "/" + name + list.path
			return list
		}
	}
	return out
}

const reportedAt = "2026-11-21T03:00:00+00:00"

func artifacts(g *listGrower) growingList {
	return growingList{position: atEnd, add: func(n int) {
		g.run.report("artifact", map[string]any{"kind": "eval_report", "path": "/data/" + rowName(n), "format": "json"})
	}}
}

func files(g *listGrower) growingList {
	list := artifacts(g)
	list.by = "artifact_id"
	return list
}

func benchmarks(g *listGrower) growingList {
	return growingList{position: atEnd, add: func(n int) {
		g.run.report("benchmark", map[string]any{"name": rowName(n), "metric": "exact_match", "value": 0.5})
	}}
}

func nodes(g *listGrower) growingList {
	return growingList{by: "rank", position: atEnd, add: func(n int) {
		g.run.report("environment/nodes", map[string]any{"nodes": []any{map[string]any{"rank": n, "host": rowName(n)}}})
	}}
}

func hardware(g *listGrower) growingList {
	return growingList{by: "key", position: atEnd, add: func(n int) {
		g.run.report("hardware", map[string]any{"points": []any{map[string]any{"ts": reportedAt, "node": "n0", "key": rowName(n), "value": 1}}})
	}}
}

// corrections grows the list of hyperparameter corrections: it reports a hyperparameter once, and then a
// new value for each row.
func corrections(g *listGrower) growingList {
	report := func(value any) { g.run.report("hparams", map[string]any{"params": map[string]any{"corrected": value}}) }
	report("at first, of " + g.Name())
	return growingList{by: "value", position: atFront, add: func(n int) { report(n) }}
}

func lines(g *listGrower) growingList {
	return growingList{by: "text", position: atEnd, add: func(n int) { g.run.report("logs", map[string]any{"chunks": []string{rowName(n) + "\n"}}) }}
}

func metrics(g *listGrower) growingList {
	return growingList{by: "key", position: atEnd, add: func(n int) {
		g.run.report("metrics", map[string]any{"points": []any{map[string]any{"key": rowName(n), "step": 1, "value": 1, "ts": reportedAt}}})
	}}
}

func samples(g *listGrower) growingList {
	return growingList{path: fmt.Sprint("?step=", round), by: "user", position: atEnd, add: func(n int) {
		g.run.report("validation", map[string]any{
			"step": round, "chunk_index": n, "total_chunks": 1000, "samples": []any{map[string]any{"user": rowName(n), "assistant": "x", "reward": 1}},
		})
	}}
}

func validations(g *listGrower) growingList {
	return growingList{by: "step", position: atEnd, add: func(n int) {
		g.run.report("validation", map[string]any{"step": round + n, "chunk_index": 0, "total_chunks": 1, "samples": []any{}})
	}}
}
