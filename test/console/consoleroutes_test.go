package console

import (
	"slices"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
)

// chart selects a drawn chart.
const chart = "main canvas"

// noSession is how the pages of the gateway learn that a browser has not signed in.
const noSession = "401 POST /api/auth/refresh"

// routeTable returns the routes of the console, with the objects of a loop and others.
func routeTable(l *e2eflow.Loop, o routeObjects) []consoleRoute {
	return slices.Concat(jobRoutes(l), runRoutes(l, o), dataRoutes(l, o), servingRoutes(l, o), placeRoutes(l, o), gatewayRoutes(o))
}

func jobRoutes(l *e2eflow.Loop) []consoleRoute {
	job := "/jobs/" + l.Job.ID
	return []consoleRoute{
		{Name: "overview", Path: "/"},
		{Name: "jobs", Path: "/jobs"},
		{Name: "jobs-none", Path: "/jobs?state=paused"},
		{Name: "jobs-filtered", Path: "/jobs?state=succeeded&q=" + l.Name, Ready: "main [role=row]"},
		{Name: "submit", Path: "/submit"},
		{Name: "submit-recipe", Path: "/submit?recipe=demo/chat-tiny"},
		{Name: "submit-yaml", Path: "/submit?recipe=custom/custom&view=yaml"},
		{Name: "job", Path: job, Ready: chart},
		{Name: "job-metrics", Path: job + "/metrics", Ready: chart},
		{Name: "job-logs", Path: job + "/logs"},
		{Name: "job-logs-found", Path: job + "/logs?find=exact&only=true", Ready: "main [data-line]"},
		{Name: "job-logs-none", Path: job + "/logs?level=error"},
		{Name: "job-samples", Path: job + "/samples"},
		{Name: "job-artifacts", Path: job + "/artifacts"},
		{Name: "job-lineage", Path: job + "/lineage"},
		{Name: "job-system", Path: job + "/system"},
		{Name: "job-spec", Path: job + "/spec"},
		{Name: "job-events", Path: job + "/events"},
		{Name: "job-unknown", Path: "/jobs/job_01kb4q6z8w0000000000000000", statuses: []string{"404 GET /api/jobs/job_01kb4q6z8w0000000000000000"}},
	}
}

func runRoutes(l *e2eflow.Loop, o routeObjects) []consoleRoute {
	run, outside := "/runs/"+l.Job.RunID, "/runs/"+o.outside
	compare := "/compare?runs=" + l.Job.RunID + "," + o.outside
	return []consoleRoute{
		{Name: "runs", Path: "/runs"},
		{Name: "runs-none", Path: "/runs?q=no-such-run"},
		{Name: "run", Path: run, Ready: chart},
		{Name: "run-metrics", Path: run + "/metrics", Ready: chart},
		{Name: "run-logs", Path: run + "/logs"},
		{Name: "run-samples", Path: run + "/samples"},
		{Name: "run-artifacts", Path: run + "/artifacts"},
		{Name: "run-lineage", Path: run + "/lineage"},
		{Name: "run-system", Path: run + "/system"},
		{Name: "run-spec", Path: run + "/spec"},
		{Name: "run-events", Path: run + "/events"},
		{Name: "run-notes", Path: run + "/notes"},
		{Name: "run-outside", Path: outside},
		{Name: "run-outside-metrics", Path: outside + "/metrics"},
		{Name: "run-outside-logs", Path: outside + "/logs"},
		{Name: "run-outside-artifacts", Path: outside + "/artifacts"},
		{Name: "run-outside-lineage", Path: outside + "/lineage"},
		{Name: "run-outside-events", Path: outside + "/events"},
		{Name: "run-unknown", Path: "/runs/run_01kb4q6z8w0000000000000000", statuses: []string{"404 GET /api/runs/run_01kb4q6z8w0000000000000000"}},
		{Name: "compare", Path: compare, Ready: chart},
		{Name: "compare-none", Path: "/compare"},
		{Name: "compare-params", Path: compare + "&tab=params"},
		{Name: "compare-values", Path: compare + "&tab=values"},
		{Name: "compare-samples", Path: compare + "&tab=samples"},
		{Name: "compare-logs", Path: compare + "&tab=logs"},
		{Name: "compare-groups", Path: compare + "&group=seed"},
	}
}

func dataRoutes(l *e2eflow.Loop, o routeObjects) []consoleRoute {
	dataset, model := "/datasets/"+o.dataset+"/latest", "/models/"+o.model+"/latest"
	rubric, environment := "/rubrics/"+o.rubric, "/environments/"+o.environment
	return []consoleRoute{
		{Name: "datasets", Path: "/datasets"},
		{Name: "dataset", Path: dataset},
		{Name: "dataset-schema", Path: dataset + "?tab=schema"},
		{Name: "dataset-files", Path: dataset + "?tab=files"},
		{Name: "dataset-versions", Path: dataset + "?tab=versions"},
		{Name: "dataset-lineage", Path: dataset + "?tab=lineage"},
		{Name: "models", Path: "/models"},
		{Name: "model", Path: model},
		{Name: "model-versions", Path: model + "?tab=versions"},
		{Name: "model-lineage", Path: model + "?tab=lineage"},
		{Name: "model-files", Path: model + "?tab=files"},
		{Name: "model-history", Path: model + "?tab=history"},
		{Name: "environments", Path: "/environments"},
		{Name: "environment", Path: environment},
		{Name: "environment-version", Path: environment + "?version=v1"},
		{Name: "rubrics", Path: "/rubrics"},
		{Name: "rubric", Path: rubric},
		{Name: "rubric-difference", Path: rubric + "?version=2&against=1"},
		{Name: "search", Path: "/search?q=" + l.Name, Ready: "main section li"},
		{Name: "search-none", Path: "/search?q=no-such-thing-at-all"},
	}
}

func servingRoutes(l *e2eflow.Loop, o routeObjects) []consoleRoute {
	deployment := "/deployments/" + l.Deployment.ID
	return []consoleRoute{
		{Name: "deployments", Path: "/deployments"},
		{Name: "deployment", Path: deployment},
		{Name: "deployment-revisions", Path: deployment + "?tab=revisions"},
		{Name: "deployment-tokens", Path: deployment + "?tab=tokens"},
		{Name: "deployment-traffic", Path: deployment + "?tab=traffic"},
		{Name: "deployment-lineage", Path: deployment + "?tab=lineage"},
		{Name: "deployment-events", Path: deployment + "?tab=events"},
		{Name: "deployment-settings", Path: deployment + "?tab=settings"},
		{Name: "playground", Path: "/playground"},
		{Name: "playground-session", Path: "/playground/" + o.session},
	}
}

// placeRoutes are the pages of the installation: its projects, people, hardware and settings.
func placeRoutes(_ *e2eflow.Loop, o routeObjects) []consoleRoute {
	fleet := "/fleets/" + o.fleet
	return []consoleRoute{
		{Name: "projects", Path: "/projects"},
		{Name: "project", Path: "/projects/default"},
		{Name: "teams", Path: "/teams"},
		{Name: "team", Path: "/teams/" + o.team},
		{Name: "cluster", Path: "/cluster"},
		{Name: "cluster-nodes", Path: "/cluster?view=nodes"},
		{Name: "cluster-queue", Path: "/cluster?view=queue"},
		{Name: "cluster-holders", Path: "/cluster?view=holders"},
		{Name: "cluster-pools", Path: "/cluster?view=pools"},
		{Name: "node", Path: "/cluster/nodes/" + o.node},
		{Name: "fleets", Path: "/fleets"},
		{Name: "fleet", Path: fleet},
		{Name: "fleet-tokens", Path: fleet + "?view=tokens"},
		{Name: "fleet-events", Path: fleet + "?view=events"},
		{Name: "fleet-slurm", Path: "/fleets/" + o.slurm, Ready: "main table"},
		{Name: "users", Path: "/admin/users"},
		{Name: "user", Path: "/admin/users/" + o.user},
		{Name: "hardware", Path: "/admin/hardware"},
		{Name: "hardware-edit", Path: "/admin/hardware?view=edit"},
		{Name: "installation", Path: "/admin/settings"},
		{Name: "maintenance", Path: "/admin/maintenance"},
		{Name: "keys", Path: "/admin/keys"},
		{Name: "audit", Path: "/admin/audit"},
		{Name: "profile", Path: "/settings/profile"},
		{Name: "shares", Path: "/settings/shares"},
		{Name: "not-found", Path: "/no-such-page"},
	}
}

// gatewayRoutes are the pages that need no session or are outside the console.
func gatewayRoutes(o routeObjects) []consoleRoute {
	docs := consoleRoute{Name: "docs", Path: "/docs/"}
	if o.undocumented {
		docs.statuses = []string{"501 GET /docs/"}
	}
	return []consoleRoute{
		docs,
		{Name: "signed-in", Path: "/login"},
		{Name: "device", Path: "/device"},
		{Name: "login", Path: "/login", Stranger: true, statuses: []string{noSession}},
		{Name: "share", Path: "/share/" + o.share, Stranger: true, Ready: "main svg[role=img]"},
		{
			Name: "share-unknown", Path: "/share/shr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", Stranger: true,
			statuses: []string{"404 GET /api/share/shr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		},
	}
}

// emptyRoutes are the pages that a new user opens first, while nothing is made in the installation.
func emptyRoutes() []consoleRoute {
	return []consoleRoute{
		{Name: "empty-overview", Path: "/", Ready: "text=You have no runs yet."},
		{Name: "empty-jobs", Path: "/jobs", Ready: "text=No jobs yet"},
		{Name: "empty-runs", Path: "/runs", Ready: "text=No runs yet"},
		{Name: "empty-deployments", Path: "/deployments", Ready: "text=No deployment yet"},
	}
}
