package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const whole = `Two requests, and a
rule: that a colon in a sentence makes no key is one of them.
route: POST /api/jobs
route: GET  /api/jobs/{job_id}
rules: a.b c.d
world: gpu
shape: split
-- request covers --
POST /api/jobs?limit=3
Content-Type: application/json
@body: file spec
@length: none

-- response --
201
Location: <<any>>

{"id": "<<id job as mine>>"}

-- request until --
GET /api/jobs/{{mine}}

-- response --
200

-- spec --
{"a": 1}
`

func TestParse(t *testing.T) {
	t.Parallel()
	_, err := Parse("jobs/whole", []byte(whole))
	require.ErrorContains(t, err, `unknown key "rule"`)
	g, err := Parse("jobs/whole", []byte(`Two requests.
route: POST /api/jobs
route: GET  /api/jobs/{job_id}
rules: a.b c.d
world: gpu
shape: split
`+whole[len("Two requests, and a\nrule: that a colon in a sentence makes no key is one of them.\nroute: POST /api/jobs\nroute: GET  /api/jobs/{job_id}\nrules: a.b c.d\nworld: gpu\nshape: split\n"):]))
	require.NoError(t, err)
	require.Equal(t, "Two requests.", g.About)
	require.Equal(t, []string{"POST /api/jobs", "GET /api/jobs/{job_id}"}, g.Routes)
	require.Equal(t, []string{"a.b", "c.d"}, g.Rules)
	require.Equal(t, []string{"gpu"}, g.Needs)
	require.Equal(t, "split", g.Kind)
	require.Equal(t, map[string][]byte{"spec": []byte("{\"a\": 1}\n")}, g.files)
	require.Equal(t, []Step{
		{
			Request: Request{
				Method: "POST", Target: "/api/jobs?limit=3", Header: []Field{{"Content-Type", "application/json"}},
				Made: []string{"file", "spec"}, Length: "none",
			},
			Response: Response{201, []Field{{"Location", "<<any>>"}}, `{"id": "<<id job as mine>>"}`},
			Covers:   true, Times: 1,
		},
		{Request: Request{Method: "GET", Target: "/api/jobs/{{mine}}"}, Response: Response{Status: 200}, Until: true, Times: 1},
	}, g.Steps)
	covers, err := g.Covers()
	require.NoError(t, err)
	require.Equal(t, []Covered{{"POST /api/jobs", 201}, {"GET /api/jobs/{job_id}", 200}}, covers)
	require.Equal(t, []string{"mine"}, g.Names())
}

func TestParse_invalid(t *testing.T) {
	t.Parallel()
	ask := "-- request --\nGET /\n"
	for text, words := range map[string]string{
		"":                              "the description is missing",
		"About.\n":                      "the golden has no request",
		"About.\n" + ask:                "request 1 has no response",
		"About.\n-- response --\n200\n": "a response must follow its request",
		"About.\nshape: round\n" + ask + "-- response --\n200\n":               `unknown shape "round"`,
		"About.\nroot: GET /\n":                                                `unknown key "root"`,
		"About.\n-- request soon --\nGET /":                                    `unknown word "soon"`,
		"About.\n-- request --\nGET\n":                                         "is not a valid request line",
		"About.\n-- request --\nGET /\nX\n":                                    "is not a valid header field",
		"About.\n-- request --\nGET /\n@slowly: yes\n":                         "unknown directive @slowly",
		"About.\n-- request --\nGET /\n@times: 1\n":                            "is not a valid number of times",
		"About.\n-- request until --\nGET /\n@times: 2\n-- response --\n200\n": "until and @times cannot be combined",
		"About.\n" + ask + "-- response --\nfine\n":                            "is not a valid status",
		"About.\n" + ask + "-- response --\n99\n":                              "is not a valid status",
		"About.\n" + ask + "-- response --\n200\n@times: 2\n":                  "@times is not allowed in a response",
		"About.\n" + ask + "-- response --\n200\n-- response --\n200\n":        "a response must follow its request",
	} {
		_, err := Parse("x/y", []byte(text))
		require.ErrorContains(t, err, words, text)
		require.ErrorContains(t, err, "x/y")
	}
}

func TestGolden_Parts(t *testing.T) {
	t.Parallel()
	text := "-- request once --\nGET /a\n-- response --\n200\n-- request --\nGET /b\n-- response --\n200\n-- request finally --\nGET /c\n-- response --\n200\n"
	_, err := Parse("x", []byte("About.\n"+text))
	require.ErrorContains(t, err, "request 1: once and finally are allowed only if the golden has the key routes")
	g, err := Parse("x", []byte("About.\nroutes: list\n"+text))
	require.NoError(t, err)
	once, each, finally := g.Parts()
	for part, target := range map[*Golden]string{once: "/a", each: "/b", finally: "/c"} {
		require.Len(t, part.Steps, 1)
		require.Equal(t, target, part.Steps[0].Request.Target)
	}
	require.Len(t, g.Steps, 3)
}

func TestGolden_Covers_routeWithoutCountingStep(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"About.\nroute: GET /a\n-- request --\nGET /a\n-- response --\n200\n-- request --\nGET /b\n-- response --\n404\n": "no step for GET /a has a status that counts as covered",
		"About.\nroute: PUT /a\n-- request --\nGET /a\n-- response --\n200\n":                                             "no step for PUT /a has a status that counts as covered",
	} {
		g, err := Parse("x", []byte(text))
		require.NoError(t, err)
		_, err = g.Covers()
		require.ErrorContains(t, err, want)
	}
}

func TestRequestLineMatchesRoute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target, route string
		want          bool
	}{
		{"GET /api/jobs", "GET /api/jobs", true},
		{"GET /api/jobs?limit=1", "GET /api/jobs", true},
		{"GET /api/jobs/", "GET /api/jobs", false},
		{"GET /api/jobs/", "GET /api/jobs/{job_id}", false},
		{"GET /api/jobs/{{job}}", "GET /api/jobs/{job_id}", true},
		{"GET /api/jobs/x/y", "GET /api/jobs/{job_id}", false},
		{"PUT /api/blobs/a/b/c?x", "PUT /api/blobs/{key...}", true},
		{"PUT /api/blobs", "PUT /api/blobs/{key...}", false},
		{"PUT {{url}}", "PUT /api/blobs/{key...}", true},
		{"GET {{url}}", "PUT /api/blobs/{key...}", false},
		{"POST /inference/{{deployment}}/v1/chat/completions", "* /inference/{deployment_id}/v1/{rest...}", true},
	} {
		method, target, _ := cut(c.target)
		require.Equal(t, c.want, MatchesRoute(method, target, c.route), "request line %s, route %s", c.target, c.route)
	}
	found, ok := Find("/api/fleets/join", []string{"/api/fleets/{fleet_id}", "/api/fleets/join", "/api/fleets"})
	require.True(t, ok)
	require.Equal(t, "/api/fleets/join", found)
	_, ok = Find("/nowhere", []string{"/api/fleets"})
	require.False(t, ok)
}
