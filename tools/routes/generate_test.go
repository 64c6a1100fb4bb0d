package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	jobs = "signalbox.jobs.v1"
	job  = ".signalbox.jobs.v1.Job"
	none = `{}`
)

func table(t *testing.T, yaml string, methods ...string) string {
	t.Helper()
	files, err := generate(image(t, jobs, methods...), []byte(yaml))
	require.NoError(t, err)
	return string(files["table.go"])
}

func TestGenerate_everyBindingIsARow(t *testing.T) {
	t.Parallel()
	got := table(t, none,
		method("GetJob", "Get", job, `[google.api.http] { get: "/api/jobs/{job_id}" additional_bindings { get: "/api/runs/{job_id}" } } `+user),
		method("CreateJob", "Make", job, `[google.api.http] { post: "/api/jobs" body: "*" } `+user),
		method("DeleteJob", "Get", ".google.protobuf.Empty", `[google.api.http] { delete: "/api/jobs/{job_id}" } [signalbox.options.v1.access] { credential: CREDENTIAL_USER role: ROLE_ADMIN need: NEED_EDIT }`),
		method("PutJob", "Make", job, `[google.api.http] { put: "/api/jobs/{job_id}" body: "job" } `+user),
		method("Look", "Get", job, `[google.api.http] { get: "/api/look" response_body: "parts" } [signalbox.options.v1.access] { credential: CREDENTIAL_NONE }`),
		method("Peer", "Get", job, `[signalbox.options.v1.access] { peers: "gateway" }`),
	)
	for _, row := range []string{
		`{Method: "GET", Pattern: "/api/jobs/{job_id}", Kind: RPC, RPC: "signalbox.jobs.v1.JobService/GetJob", Service: "jobs", Credential: "user", Role: "operator", Status: 200},`,
		`{Method: "GET", Pattern: "/api/runs/{job_id}", Kind: RPC, RPC: "signalbox.jobs.v1.JobService/GetJob", Service: "jobs", Credential: "user", Role: "operator", Status: 200},`,
		`{Method: "POST", Pattern: "/api/jobs", Kind: RPC, RPC: "signalbox.jobs.v1.JobService/CreateJob", Service: "jobs", Credential: "user", Role: "operator", Body: "*", Status: 201},`,
		`{Method: "DELETE", Pattern: "/api/jobs/{job_id}", Kind: RPC, RPC: "signalbox.jobs.v1.JobService/DeleteJob", Service: "jobs", Credential: "user", Role: "admin", Status: 204},`,
		`{Method: "PUT", Pattern: "/api/jobs/{job_id}", Kind: RPC, RPC: "signalbox.jobs.v1.JobService/PutJob", Service: "jobs", Credential: "user", Role: "operator", Body: "job", Status: 200},`,
		`{Method: "GET", Pattern: "/api/look", Kind: RPC, RPC: "signalbox.jobs.v1.JobService/Look", Service: "jobs", Credential: "none", Status: 200},`,
	} {
		require.Contains(t, got, row)
	}
	require.Equal(t, 6, strings.Count(got, "{Method:"), "a method without a binding must have no row")
}

func TestGenerate_listedRoutes(t *testing.T) {
	t.Parallel()
	got := table(t, `
handlers:
  - {handler: blobs, credential: signature, methods: [GET, PUT], paths: ["/api/blobs/{key...}"]}
streams:
  - {rpc: signalbox.jobs.v1.JobService.WatchJob, paths: ["/api/jobs/{id}/stream"]}
`, method("WatchJob", "Watch", job, user)+` server_streaming: true`)
	require.Contains(t, got, `{Method: "GET", Pattern: "/api/blobs/{key...}", Kind: Raw, Handler: "blobs", Credential: "signature"},`)
	require.Contains(t, got, `{Method: "PUT", Pattern: "/api/blobs/{key...}", Kind: Raw, Handler: "blobs", Credential: "signature"},`)
	require.Contains(t, got, `{Method: "GET", Pattern: "/api/jobs/{id}/stream", Kind: Stream, RPC: "signalbox.jobs.v1.JobService/WatchJob", Service: "jobs", Credential: "user", Role: "operator", Status: 200},`)
}

func TestGenerate_maintenanceAndLimit(t *testing.T) {
	t.Parallel()
	got := table(t, `
handlers:
  - {handler: health, credential: none, in_maintenance: true, methods: [GET], paths: [/healthz]}
`, method("A", "Get", job, `[google.api.http] { get: "/api/a" } [signalbox.options.v1.access] { credential: CREDENTIAL_NONE in_maintenance: true }`),
		method("B", "Get", job, get("/api/b")+` [signalbox.options.v1.limit_s]: 200`))
	require.Contains(t, got, `Handler: "health", Credential: "none", InMaintenance: true},`)
	require.Contains(t, got, `Pattern: "/api/a", Kind: RPC, RPC: "signalbox.jobs.v1.JobService/A", Service: "jobs", Credential: "none", Status: 200, InMaintenance: true},`)
	require.Contains(t, got, `Role: "operator", Status: 200, Limit: 200},`)
}

func TestGenerate_unservableSchemas(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pkg, method, want string
	}{
		"no access":             {jobs, method("X", "Get", job, `[google.api.http] { get: "/api/x" }`), "is missing"},
		"no access, no binding": {jobs, method("X", "Get", job, ``), "is missing"},
		"empty access":          {jobs, method("X", "Get", job, `[signalbox.options.v1.access] {}`), "exactly one of credential and peers"},
		"both":                  {jobs, method("X", "Get", job, `[signalbox.options.v1.access] { credential: CREDENTIAL_NONE peers: "auth" }`), "exactly one of credential and peers"},
		"user without a role":   {jobs, method("X", "Get", job, `[signalbox.options.v1.access] { credential: CREDENTIAL_USER }`), "requires a role"},
		"user without a need":   {jobs, method("X", "Get", job, `[google.api.http] { get: "/api/x" } [signalbox.options.v1.access] { credential: CREDENTIAL_USER role: ROLE_ADMIN }`), "requires a need"},
		"need without a user":   {jobs, method("X", "Get", job, `[google.api.http] { get: "/api/x" } [signalbox.options.v1.access] { credential: CREDENTIAL_NONE need: NEED_READ }`), "requires a need"},
		"role without a user":   {jobs, method("X", "Get", job, `[signalbox.options.v1.access] { credential: CREDENTIAL_NONE role: ROLE_ADMIN }`), "requires a role"},
		"peer with a binding":   {jobs, method("X", "Get", job, `[google.api.http] { get: "/api/x" } [signalbox.options.v1.access] { peers: "auth" }`), "between services"},
		"peer package":          {"signalbox.jobs.peer.v1", method("X", "Get", job, get("/api/x")), "between services"},
		"ingest credential":     {jobs, method("X", "Get", job, `[google.api.http] { get: "/api/x" } [signalbox.options.v1.access] { credential: CREDENTIAL_INGEST }`), "cannot accept credential"},
		"stream with a binding": {jobs, method("X", "Get", job, get("/api/x")) + ` server_streaming: true`, "a stream must not have an HTTP binding"},
		"custom verb":           {jobs, method("X", "Get", job, get("/api/x:go")), "not supported by the gateway"},
		"peer in maintenance":   {jobs, method("X", "Get", job, `[signalbox.options.v1.access] { peers: "auth" in_maintenance: true }`), "in_maintenance"},
		"peer with a limit":     {jobs, method("X", "Get", job, `[signalbox.options.v1.access] { peers: "auth" } [signalbox.options.v1.limit_s]: 60`), "may set a limit"},
		"an endless limit":      {jobs, method("X", "Get", job, get("/api/x")+` [signalbox.options.v1.limit_s]: 601`), "a limit of 601 s"},
		"a negative limit":      {jobs, method("X", "Get", job, get("/api/x")+` [signalbox.options.v1.limit_s]: -1`), "a limit of -1 s"},
		"wildcard":              {jobs, method("X", "Get", job, get("/api/{job_id=**}")), "not supported by the gateway"},
		"rest":                  {jobs, method("X", "Get", job, get("/api/{job_id...}")), "not supported by the gateway"},
		"trailing slash":        {jobs, method("X", "Get", job, get("/api/x/")), "not supported by the gateway"},
		"upper case":            {jobs, method("X", "Get", job, get("/api/X")), "not supported by the gateway"},
		"variable twice":        {jobs, method("X", "Get", job, get("/api/{job_id}/{job_id}")), "not supported by the gateway"},
		"relative":              {jobs, method("X", "Get", job, get("api/x")), "does not start with /"},
		"unknown variable":      {jobs, method("X", "Get", job, get("/api/{nope}")), "is not a field of"},
		"enum variable":         {jobs, method("X", "Get", job, get("/api/{state}")), "plain string or integer"},
		"unknown body":          {jobs, method("X", "Make", job, `[google.api.http] { post: "/api/x" body: "nope" } `+user), `body "nope"`},
		"scalar body":           {jobs, method("X", "Make", job, `[google.api.http] { post: "/api/x" body: "rate" } `+user), `body "rate"`},
		"GET with a body":       {jobs, method("X", "Make", job, `[google.api.http] { get: "/api/x" body: "*" } `+user), "must not have a body"},
		"unknown response body": {jobs, method("X", "Get", job, `[google.api.http] { get: "/api/x" response_body: "nope" } `+user), "is not a field of"},
		"object in the query":   {jobs, method("X", "Make", job, get("/api/x")), "cannot be in the query"},
		"custom method":         {jobs, method("X", "Get", job, `[google.api.http] { custom { kind: "HEAD" path: "/api/x" } } `+user), "no path or an unknown method"},
		"duration":              {jobs, method("X", "Get", ".signalbox.jobs.v1.Slow", get("/api/x")), "google.protobuf.Duration is not in a signalbox package"},
		"field named header":    {jobs, method("X", "Slow", job, get("/api/x")), "must not be named `header`"},
		"enum without zero":     {jobs, method("X", "Get", ".signalbox.jobs.v1.Odd", get("/api/x")), "UNSPECIFIED"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := generate(image(t, tc.pkg, tc.method), []byte(none))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestGenerate_invalidLists(t *testing.T) {
	t.Parallel()
	watch := method("WatchJob", "Watch", job, user) + ` server_streaming: true`
	cases := map[string]struct{ yaml, method, want string }{
		"unknown key":         {`handler: []`, watch, "not found in type"},
		"no credential":       {`handlers: [{handler: x, methods: [GET], paths: [/x]}]`, watch, "a credential of"},
		"agent credential":    {`handlers: [{handler: x, credential: agent, methods: [GET], paths: [/x]}]`, watch, "a credential of"},
		"no path":             {`handlers: [{handler: x, credential: none, methods: [GET]}]`, watch, "needs methods"},
		"bad path":            {`handlers: [{handler: x, credential: none, methods: [GET], paths: [x]}]`, watch, "does not start with /"},
		"unknown RPC":         {`streams: [{rpc: signalbox.jobs.v1.JobService.Nope, paths: [/x]}]`, watch, "not found"},
		"no RPC":              {`streams: [{rpc: signalbox.jobs.v1.Job, paths: [/x]}]`, watch, "not an RPC"},
		"unary":               {`streams: [{rpc: signalbox.jobs.v1.JobService.WatchJob, paths: [/x]}]`, method("WatchJob", "Watch", job, user), "not a server stream"},
		"cannot resume":       {`streams: [{rpc: signalbox.jobs.v1.JobService.WatchJob, paths: [/x]}]`, method("WatchJob", "Get", job, user) + ` server_streaming: true`, "to resume"},
		"open in maintenance": {`streams: [{rpc: signalbox.jobs.v1.JobService.WatchJob, paths: [/x]}]`, method("WatchJob", "Watch", job, `[signalbox.options.v1.access] { credential: CREDENTIAL_USER role: ROLE_OPERATOR need: NEED_READ in_maintenance: true }`) + ` server_streaming: true`, "in_maintenance"},
		"open to all":         {`streams: [{rpc: signalbox.jobs.v1.JobService.WatchJob, paths: [/x]}]`, method("WatchJob", "Watch", job, `[signalbox.options.v1.access] { credential: CREDENTIAL_NONE }`) + ` server_streaming: true`, "access token"},
		"variable of a path":  {`streams: [{rpc: signalbox.jobs.v1.JobService.WatchJob, paths: ["/{job_id}"]}]`, watch, "is not a field of"},
		"same path as an RPC": {`handlers: [{handler: x, credential: none, methods: [GET], paths: ["/api/{other}"]}]`, method("Get", "Get", job, get("/api/{job_id}")), "bound twice"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := generate(image(t, jobs, tc.method), []byte(tc.yaml))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestGenerate_duplicateBinding(t *testing.T) {
	t.Parallel()
	_, err := generate(image(t, jobs,
		method("A", "Get", job, get("/api/jobs/{job_id}")), method("B", "Get", job, get("/api/jobs/{number}"))), []byte(none))
	require.ErrorContains(t, err, "bound twice")
}

func TestGenerate_registersEveryBoundService(t *testing.T) {
	t.Parallel()
	files, err := generate(image(t, jobs, method("GetJob", "Get", job, get("/api/jobs/{job_id}"))), []byte(none))
	require.NoError(t, err)
	require.Contains(t, string(files["register.go"]), `jobsv1.RegisterJobServiceHandlerClient(ctx, mux, jobsv1.NewJobServiceClient(conn("jobs")))`)
	require.Contains(t, string(files["register.go"]), `jobsv1 "example.com/gen/jobs/v1"`)
}

func TestFilesAreWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, list, out := filepath.Join(dir, "image.binpb"), filepath.Join(dir, "routes.yaml"), filepath.Join(dir, "gen", "route")
	require.NoError(t, os.WriteFile(in, image(t, jobs, method("GetJob", "Get", job, get("/api/jobs/{job_id}"))), 0o600))
	require.NoError(t, os.WriteFile(list, []byte(none), 0o600))
	require.NoError(t, run(in, list, out))
	first, err := os.ReadFile(filepath.Join(out, "table.go"))
	require.NoError(t, err)
	require.NoError(t, run(in, list, out))
	again, err := os.ReadFile(filepath.Join(out, "table.go"))
	require.NoError(t, err)
	require.Equal(t, string(first), string(again))

	require.ErrorContains(t, run("", list, out), "required")
	require.ErrorContains(t, run(filepath.Join(dir, "nope"), list, out), "read image")
	require.ErrorContains(t, run(in, filepath.Join(dir, "nope"), out), "read HTTP routes")
	require.ErrorContains(t, run(list, list, out), "image")
}
