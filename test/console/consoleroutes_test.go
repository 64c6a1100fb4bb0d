package console

import "github.com/signalbox-dev/signalbox/internal/e2eflow"

// chart selects a drawn chart.
const chart = "main canvas"

// routeTable returns the routes of the console, with the objects of a loop.
func routeTable(l *e2eflow.Loop) []consoleRoute {
	job, run := "/jobs/"+l.Job.ID, "/runs/"+l.Job.RunID
	return []consoleRoute{
		{Name: "overview", Path: "/"},
		{Name: "jobs", Path: "/jobs"},
		{Name: "jobs-none", Path: "/jobs?state=paused"},
		{Name: "submit", Path: "/submit"},
		{Name: "submit-recipe", Path: "/submit?recipe=demo/chat-tiny"},
		{Name: "submit-yaml", Path: "/submit?recipe=custom/custom&view=yaml"},
		{Name: "job", Path: job},
		{Name: "job-metrics", Path: job + "/metrics", Ready: chart},
		{Name: "job-logs", Path: job + "/logs"},
		{Name: "job-samples", Path: job + "/samples"},
		{Name: "job-artifacts", Path: job + "/artifacts"},
		{Name: "job-system", Path: job + "/system"},
		{Name: "job-spec", Path: job + "/spec"},
		{Name: "job-events", Path: job + "/events"},
		{Name: "job-unknown", Path: "/jobs/job_01kb4q6z8w0000000000000000", statuses: []string{"404 GET /api/jobs/job_01kb4q6z8w0000000000000000"}},
		{Name: "runs", Path: "/runs"},
		{Name: "run", Path: run},
		{Name: "run-metrics", Path: run + "/metrics", Ready: chart},
		{Name: "compare", Path: "/compare?runs=" + l.Job.RunID, Ready: chart},
		{Name: "projects", Path: "/projects"},
		{Name: "project", Path: "/projects/default"},
		{Name: "datasets", Path: "/datasets"},
		{Name: "models", Path: "/models"},
		{Name: "deployments", Path: "/deployments"},
		{Name: "deployment", Path: "/deployments/" + l.Deployment.ID},
		{Name: "playground", Path: "/playground"},
		{Name: "search", Path: "/search?q=" + l.Name, Ready: "main section li"},
		{Name: "cluster", Path: "/cluster"},
		{Name: "users", Path: "/admin/users"},
		{Name: "environments", Path: "/environments"},
		{Name: "rubrics", Path: "/rubrics"},
		{Name: "fleets", Path: "/fleets"},
		{Name: "teams", Path: "/teams"},
		{Name: "shares", Path: "/settings/shares"},
		{Name: "audit", Path: "/admin/audit"},
		{Name: "profile", Path: "/settings/profile"},
		{Name: "not-found", Path: "/no-such-page"},
	}
}
