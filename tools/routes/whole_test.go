package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// open is the access option of an RPC that needs no credential.
const open = `[signalbox.options.v1.access] { credential: CREDENTIAL_NONE }`

func TestGenerate_methodWithoutAccess(t *testing.T) {
	t.Parallel()
	fine := []string{
		method("GetJob", "Get", job, get("/api/jobs/{job_id}")), method("Peer", "Get", job, `[signalbox.options.v1.access] { peers: "gateway" }`),
	}
	_, err := generate(image(t, jobs, fine...), []byte(none))
	require.NoError(t, err)
	for _, pkg := range []string{jobs, "signalbox.jobs.peer.v1", "signalbox.other.v1", "signalbox.deep.er.v1"} {
		files, err := generate(image(t, pkg, append(fine[1:], method("Forgotten", "Get", job, ``))...), []byte(none))
		require.ErrorContains(t, err, pkg+".JobService.Forgotten", "the error must name the method")
		require.ErrorContains(t, err, "signalbox.options.v1.access")
		require.Nil(t, files, "no file is generated")
	}
	_, err = generate(image(t, "google.longrunning", method("Theirs", "Get", job, ``)), []byte(none))
	require.NoError(t, err, "packages of others are ignored")
}

func TestGenerate_imageWithoutOptions(t *testing.T) {
	t.Parallel()
	set := &descriptorpb.FileDescriptorSet{}
	require.NoError(t, proto.Unmarshal(image(t, jobs), set))
	var kept []*descriptorpb.FileDescriptorProto
	for _, f := range set.GetFile() {
		if f.GetName() != "signalbox/options/v1/options.proto" && !strings.HasPrefix(f.GetPackage(), "signalbox") {
			kept = append(kept, f)
		}
	}
	set.File = kept
	bare, err := proto.Marshal(set)
	require.NoError(t, err)
	_, err = generate(bare, []byte(none))
	require.ErrorContains(t, err, "find option signalbox.options.v1.access")
	for name, broken := range map[string][]byte{"no image": []byte("\xff\xff"), "truncated image": image(t, jobs)[:300]} {
		_, err := generate(broken, []byte(none))
		require.ErrorContains(t, err, "image", name)
	}
}

func TestGenerate_invalidBindings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ method, want string }{
		"a custom verb":            {method("X", "Get", job, `[google.api.http] { custom { kind: "PURGE" path: "/api/x" } } `+user), "no path or an unknown method"},
		"no path at all":           {method("X", "Get", job, `[google.api.http] {} `+user), "no path or an unknown method"},
		"missing field":            {method("X", "Get", job, get("/api/{nope}")), "is not a field of"},
		"missing body":             {method("X", "Make", job, `[google.api.http] { post: "/api/x" body: "nope" } `+user), "is not a message or bytes field"},
		"missing response body":    {method("X", "Get", job, `[google.api.http] { get: "/api/x" response_body: "nope" } `+user), "is not a field of"},
		"a body of a GET":          {method("X", "Make", job, `[google.api.http] { get: "/api/x" body: "*" } `+user), "must not have a body"},
		"a body of a DELETE":       {method("X", "Make", job, `[google.api.http] { delete: "/api/x" body: "*" } `+user), "must not have a body"},
		"additional binding":       {method("X", "Get", job, `[google.api.http] { get: "/api/x" additional_bindings { get: "/api/X" } } `+user), "not supported by the gateway"},
		"an empty segment":         {method("X", "Get", job, get("/api//x")), "not supported by the gateway"},
		"a dot segment":            {method("X", "Get", job, get("/api/../x")), "not supported by the gateway"},
		"an encoded segment":       {method("X", "Get", job, get("/api/%2e")), "not supported by the gateway"},
		"unclosed variable":        {method("X", "Get", job, get("/api/{job_id")), "not supported by the gateway"},
		"prefix before a variable": {method("X", "Get", job, get("/api/v{job_id}")), "not supported by the gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := generate(image(t, jobs, tc.method), []byte(none))
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "JobService.X", "the error must name the method")
		})
	}
}

func TestGenerate_conflictingPaths(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		yaml    string
		methods []string
		clash   bool
	}{
		"variables of two names":     {none, []string{method("A", "Get", job, get("/api/{job_id}/x")), method("B", "Get", job, get("/api/{number}/x"))}, true},
		"two methods of one path":    {none, []string{method("A", "Get", job, get("/api/x")), method("B", "Get", job, `[google.api.http] { delete: "/api/x" } `+open)}, false},
		"a literal and a variable":   {none, []string{method("A", "Get", job, get("/api/all")), method("B", "Get", job, get("/api/{job_id}"))}, false},
		"one method bound twice":     {none, []string{method("A", "Get", job, `[google.api.http] { get: "/api/x" additional_bindings { get: "/api/x" } } `+user)}, true},
		"repeated handler method":    {`handlers: [{handler: x, credential: none, methods: [GET, GET], paths: [/x]}]`, nil, true},
		"rests of two handlers":      {`handlers: [{handler: x, credential: none, methods: [GET], paths: ["/x/{a...}"]}, {handler: y, credential: none, methods: [GET], paths: ["/x/{b...}"]}]`, nil, true},
		"a rest and a plain segment": {`handlers: [{handler: x, credential: none, methods: [GET], paths: ["/x/{a...}", "/x/{a}"]}]`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := generate(image(t, jobs, tc.methods...), []byte(tc.yaml))
			if tc.clash {
				require.ErrorContains(t, err, "bound twice")
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestGenerate_validGo(t *testing.T) {
	t.Parallel()
	files, err := generate(image(t, jobs,
		method("GetJob", "Get", job, get("/api/jobs/{job_id}")),
		method("SubmitJob", "Make", job, `[google.api.http] { post: "/api/jobs" body: "*" } `+user),
		method("WatchJob", "Watch", job, user)+` server_streaming: true`), []byte(`
handlers: [{handler: "odd\"name", credential: none, methods: ["*"], paths: ["/odd/{rest...}"]}]
streams: [{rpc: signalbox.jobs.v1.JobService.WatchJob, paths: ["/api/jobs/{id}/stream"]}]
`))
	require.NoError(t, err)
	for name, text := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		require.NoError(t, err, name)
		require.Equal(t, "route", parsed.Name.Name)
		require.True(t, ast.IsGenerated(parsed), "linters and formatters must skip the file")
	}
	require.Contains(t, string(files["table.go"]), `Handler: "odd\"name"`, "names must be quoted")
	require.NotContains(t, string(files["register.go"]), "HandlerServer", "binding to a server would bypass its interceptors")
}

func TestGenerate_stableOrder(t *testing.T) {
	t.Parallel()
	a := method("A", "Get", job, get("/api/b"))
	b := method("B", "Get", job, get("/api/a"))
	c := method("C", "Get", job, `[google.api.http] { delete: "/api/a" } `+open)
	first, err := generate(image(t, jobs, a, b, c), []byte(none))
	require.NoError(t, err)
	again, err := generate(image(t, jobs, c, b, a), []byte(none))
	require.NoError(t, err)
	require.Equal(t, string(first["table.go"]), string(again["table.go"]))
	text := string(first["table.go"])
	require.Less(t, strings.Index(text, `"DELETE", Pattern: "/api/a"`), strings.Index(text, `"GET", Pattern: "/api/a"`))
	require.Less(t, strings.Index(text, `"GET", Pattern: "/api/a"`), strings.Index(text, `"GET", Pattern: "/api/b"`))
}
