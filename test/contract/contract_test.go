// Package contract tests every rule of the specification. It runs goldens (files of requests and expected
// responses) against complete installations: with a single process and with one process per service. It
// compares each response with the golden and with the OpenAPI document. It also tests that every route and status is
// covered by a golden, and every sentence of the specification by a test.
package contract

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/contract/exchange"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// parallelGoldens is the number of goldens that run in parallel. It may exceed the number of CPUs, because goldens
// spend most of their time waiting.
const parallelGoldens = "6"

// requestTimeout limits the time of a request, and of a step that is repeated until it succeeds.
const requestTimeout = time.Minute

// drafting replaces each expected body that is a question mark by the received body. The author of the
// golden must review it.
var drafting = flag.Bool("draft", false, "Replace each expected body that is a question mark by the received body.")

// writeDrafts writes the drafts of expected bodies to the file of the golden.
func writeDrafts(t *testing.T, g *exchange.Golden, drafts map[int]string) {
	t.Helper()
	if len(drafts) == 0 {
		return
	}
	path := filepath.Join("golden", g.Name+".txtar")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(exchange.Fill(string(text), drafts)), 0o644))
}

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", parallelGoldens)
	}
	os.Exit(m.Run())
}

// settings returns the settings of an installation that must handle many small requests quickly.
func settings() map[string]string {
	return map[string]string{
		"SERVICE_AUTH_HASH_MEMORY_KIB": "64", "SERVICE_AUTH_HASH_ITERATIONS": "1", "SERVICE_JOBS_NODE_SLOTS": "64",
		"SERVICE_EGRESS_ALLOW": "127.0.0.0/8", "SERVICE_MAX_UPLOAD_MB": "2048",
	}
}

func loadGoldens(t *testing.T) []*exchange.Golden {
	t.Helper()
	all, err := exchange.Load("golden")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// `make test` runs one in splitShare goldens on the installation with one process per service. A golden
// that runs for many routes runs for one in routeShare of them.
const (
	splitShare = 4
	routeShare = 10
)

// TestContract runs the goldens on both kinds of installation.
func TestContract(t *testing.T) {
	all := loadGoldens(t)
	for _, kind := range []string{"single", "split"} {
		t.Run(kind, func(t *testing.T) {
			w := newHarness(t, testenv.Kinds()[kind](t, testenv.Options{Env: settings()}))
			some := all
			if kind == "split" {
				some = draw.Routes(t, splitShare, all, func(g *exchange.Golden) string { return g.Name }, func(g *exchange.Golden) []string { return g.Routes })
			}
			for start, end := 0, 0; start < len(some); start = end {
				area, _, _ := strings.Cut(some[start].Name, "/")
				for end < len(some) && strings.HasPrefix(some[end].Name, area+"/") {
					end++
				}
				t.Run(area, func(t *testing.T) { w.runArea(t, kind, some[start:end]) })
			}
			t.Run("lists are stable", w.requireStableLists)
			t.Run("protected run leaks nothing", w.requireNoLeak)
			if kind == "single" {
				t.Run("shutdown", w.requireGracefulShutdown) // must run last, because it stops signalboxd
			}
		})
	}
}

// runArea runs the goldens of one folder. Goldens that set Alone run first, one at a time. Then the others run in
// parallel.
func (w *harness) runArea(t *testing.T, kind string, goldens []*exchange.Golden) {
	t.Helper()
	for _, g := range goldens {
		if g.Kind != "" && g.Kind != kind {
			continue
		}
		_, name, _ := strings.Cut(g.Name, "/")
		t.Run(name, func(t *testing.T) {
			if !g.Alone {
				t.Parallel()
			}
			w.runGolden(t, g)
		})
	}
}

func (w *harness) runGolden(t *testing.T, g *exchange.Golden) {
	t.Helper()
	target := exchange.Target{URL: w.URL, From: w.address(), Timeout: requestTimeout, Variable: w.variables(t), Document: document(t)}
	for _, name := range g.Needs {
		_, err := target.Variable(name)
		require.NoError(t, err)
	}
	if g.Each == "" {
		drafts := map[int]string{}
		if *drafting {
			target.Draft = func(step int, body string) { drafts[step] = body }
		}
		err := g.Run(t.Context(), target)
		writeDrafts(t, g, drafts)
		require.NoError(t, err)
		return
	}
	once, each, finally := g.Parts()
	target.Vars = map[string]string{}
	require.NoError(t, once.Run(t.Context(), target))
	captured := target.Vars
	for _, rt := range draw.Table(t, routeShare, selected(t, g.Each)) {
		t.Run(rt.Method+" "+strings.TrimPrefix(rt.Pattern, "/"), func(t *testing.T) {
			target.Vars = maps.Clone(captured)
			maps.Copy(target.Vars, routeVars(t, rt))
			require.NoError(t, each.Run(t.Context(), target))
		})
	}
	target.Vars = captured
	require.NoError(t, finally.Run(t.Context(), target))
}
