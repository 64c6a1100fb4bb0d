// Package contract tests every rule of the specification. It runs goldens (files of requests and expected
// responses) against complete installations: with a single process and with one process per service. It
// compares each response with the golden and with the OpenAPI document. It also tests that a golden covers
// every route and status, and that a test covers every sentence of the specification.
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

// besides is the number of goldens that run in parallel. It may exceed the number of CPUs, because goldens
// spend most of their time waiting.
const besides = "6"

// patience limits the time of a request, and of a step that is repeated until it succeeds.
const patience = time.Minute

// drafting replaces each expected body that is a question mark by the received body. The author of the
// golden must review it.
var drafting = flag.Bool("draft", false, "Replace each expected body that is a question mark by the received body.")

// written writes the drafts of expected bodies to the file of the golden.
func written(t *testing.T, g *exchange.Golden, drafts map[int]string) {
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
		_ = flag.Set("test.parallel", besides)
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

func loaded(t *testing.T) []*exchange.Golden {
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
	all := loaded(t)
	for _, shape := range []string{"single", "split"} {
		t.Run(shape, func(t *testing.T) {
			w := newWorld(t, testenv.Kinds()[shape](t, testenv.Options{Env: settings()}))
			some := all
			if shape == "split" {
				some = draw.OneIn(draw.New(t), splitShare, all)
			}
			for start, end := 0, 0; start < len(some); start = end {
				area, _, _ := strings.Cut(some[start].Name, "/")
				for end < len(some) && strings.HasPrefix(some[end].Name, area+"/") {
					end++
				}
				t.Run(area, func(t *testing.T) { w.area(t, shape, some[start:end]) })
			}
			t.Run("lists are stable", w.stable)
			if shape == "single" {
				t.Run("shutdown", w.stops) // must run last, because it stops signalboxd
			}
		})
	}
}

// area runs the goldens of one folder. Goldens with Alone run first, one at a time. Then the others run in
// parallel.
func (w *world) area(t *testing.T, shape string, goldens []*exchange.Golden) {
	t.Helper()
	for _, g := range goldens {
		if g.Shape != "" && g.Shape != shape {
			continue
		}
		_, name, _ := strings.Cut(g.Name, "/")
		t.Run(name, func(t *testing.T) {
			if !g.Alone {
				t.Parallel()
			}
			w.play(t, g)
		})
	}
}

func (w *world) play(t *testing.T, g *exchange.Golden) {
	t.Helper()
	stage := exchange.Stage{URL: w.URL, From: w.address(), StageTimeout: patience, World: w.variables(t), Document: document(t)}
	for _, name := range g.World {
		_, err := stage.World(name)
		require.NoError(t, err)
	}
	if g.Each == "" {
		drafts := map[int]string{}
		if *drafting {
			stage.Draft = func(step int, body string) { drafts[step] = body }
		}
		err := g.Play(t.Context(), stage)
		written(t, g, drafts)
		require.NoError(t, err)
		return
	}
	once, each, finally := g.Parts()
	stage.Vars = map[string]string{}
	require.NoError(t, once.Play(t.Context(), stage))
	kept := stage.Vars
	for _, rt := range draw.OneIn(draw.New(t), routeShare, selected(t, g.Each)) {
		t.Run(rt.Method+" "+strings.TrimPrefix(rt.Pattern, "/"), func(t *testing.T) {
			stage.Vars = maps.Clone(kept)
			maps.Copy(stage.Vars, routeVars(t, rt))
			require.NoError(t, each.Play(t.Context(), stage))
		})
	}
	stage.Vars = kept
	require.NoError(t, finally.Play(t.Context(), stage))
}
