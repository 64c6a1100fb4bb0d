// Package contract tests every rule of the specification: it plays goldens of requests and responses against whole
// installations in both shapes and compares each response with the golden and with the OpenAPI document. It also tests
// that every route and status is covered, and that every sentence of the specification is covered by a test.
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

// besides is how many goldens run in parallel. It may exceed the number of CPUs because goldens mostly wait.
const besides = "6"

// patience limits the time of a request, and of a step that is repeated until it succeeds.
const patience = time.Minute

// drafting replaces expected bodies that are a question mark by the received ones; the author must review them.
var drafting = flag.Bool("draft", false, "Replace expected bodies that are a question mark by the received ones.")

// written stores the drafted bodies in the golden's file.
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

// settings returns the settings of an installation that handles many small requests fast.
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

// In `make test` the split shape plays one golden in splitShare, and a golden for each of many routes is played for one
// route in routeShare.
const (
	splitShare = 4
	routeShare = 10
)

// TestContract plays all goldens in both shapes.
func TestContract(t *testing.T) {
	all := loaded(t)
	for _, shape := range []string{"single", "split"} {
		t.Run(shape, func(t *testing.T) {
			w := newWorld(t, testenv.Shapes()[shape](t, testenv.Options{Env: settings()}))
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
				t.Run("shutdown", w.stops) // must be the last
			}
		})
	}
}

// area plays the goldens of one folder. Those marked alone run one by one; the others run in parallel after them.
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
	stage := exchange.Stage{URL: w.URL, From: w.address(), Patience: patience, World: w.variables(t), Document: document(t)}
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
