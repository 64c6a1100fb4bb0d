// Package console opens the web console of whole installations in Chromium. The programs for Node beside it drive the
// browser.
package console

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// look is how a browser shows the console.
type look struct {
	Name   string `json:"name"`
	Scheme string `json:"scheme"`
	Width  int    `json:"width"`
}

// consoleRoute is an address of the console. Looks are the names of the looks in which the browser opens it.
type consoleRoute struct {
	Name  string   `json:"name"`
	Path  string   `json:"path"`
	Looks []string `json:"looks"`
	// Stranger is whether a browser opens it that has not signed in.
	Stranger bool `json:"stranger,omitempty"`
	// Ready selects an element that the browser waits for before it looks at the page.
	Ready string `json:"ready,omitempty"`
	// statuses are the error responses that the route must cause.
	statuses []string
}

// consoleTask is the input of the programs in this folder.
type consoleTask struct {
	URL      string            `json:"url"`
	Chromium string            `json:"chromium"`
	Out      string            `json:"out"`
	Texts    string            `json:"texts"`
	Username string            `json:"username"`
	Password string            `json:"password"`
	Patience int               `json:"patience"`
	Looks    []look            `json:"looks,omitempty"`
	Routes   []consoleRoute    `json:"routes,omitempty"`
	IDs      map[string]string `json:"ids"`
	Journeys []string          `json:"journeys,omitempty"`
	Statuses []int             `json:"statuses,omitempty"`
	Control  string            `json:"control,omitempty"`
	Size     *runSize          `json:"size,omitempty"`
}

// consoleVisit is what the browser saw on one route.
type consoleVisit struct {
	Route, Scheme, Heading, Failed          string
	Width                                   int
	Faults, Raw, Console, Policy, Elsewhere []string
	Statuses, Hidden, Cut                   []string
	Wide                                    int
}

func consoleLooks() []look {
	return []look{
		{"light", "light", 1280},
		{"dark", "dark", 1280},
		{"phone", "light", 390},
	}
}

// consoleRoutes returns a third of the routes of the console, which the seed selects, each in one look. It returns all
// routes in all looks in a long test, for make console-test and for make shots, or in all looks those that ROUTES names.
func consoleRoutes(t *testing.T, table []consoleRoute) []consoleRoute {
	t.Helper()
	var names []string
	for _, l := range consoleLooks() {
		names = append(names, l.Name)
	}
	whole, random := os.Getenv("SHOTS") == "all" || os.Getenv("CONSOLE") == "all", draw.New(t)
	routes := table
	if only := os.Getenv("ROUTES"); only != "" {
		whole = true
		routes = slices.DeleteFunc(table, func(r consoleRoute) bool { return !slices.Contains(strings.Split(only, ","), r.Name) })
	}
	if !whole {
		routes = draw.Some(random, len(table)/3, table, func(r consoleRoute) string { return r.Name })
	}
	for i := range routes {
		routes[i].Looks = names
		if !whole {
			routes[i].Looks = draw.Some(random, 1, names, func(look string) string { return routes[i].Name + " " + look })
		}
	}
	return routes
}

// TestConsole opens the console in Chromium: of a new installation, and after a model was trained and served.
func TestConsole(t *testing.T) {
	for kind, start := range testenv.DrawnKinds(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			s := start(t, testenv.Options{})
			task := newConsoleTask(t, s)
			t.Run("nothing made", func(t *testing.T) { requireRoutes(ctx, t, task, emptyRoutes()) })
			l := testenv.Train(ctx, t, s)
			testenv.Serve(ctx, t, s, l)
			task.IDs = map[string]string{"job": l.Job.ID, "run": l.Job.RunID, "name": l.Name, "deployment": l.Deployment.ID}
			t.Run("live job", func(t *testing.T) { requireLiveJob(ctx, t, s, task, l) })
			t.Run("routes", func(t *testing.T) {
				table := routeTable(l, newRouteObjects(ctx, t, l))
				requireNamed(t, table)
				requireRoutes(ctx, t, task, table)
			})
			t.Run("journeys", func(t *testing.T) { requireJourneys(ctx, t, s, task) })
			t.Run("measures", func(t *testing.T) { requireMeasures(ctx, t, task) })
			t.Run("states", func(t *testing.T) { requireStates(ctx, t, task) })
			t.Run("reconnect", func(t *testing.T) { requireReconnect(ctx, t, s, task, l) })
		})
	}
}

func newConsoleTask(t *testing.T, s *testenv.Installation) consoleTask {
	t.Helper()
	out := filepath.Join(testenv.Root(t), ".cache", "shots")
	return consoleTask{
		URL: s.URL, Chromium: testenv.Tool(t.Context(), t, "chromium.sh"), Out: out, Texts: filepath.Join(testenv.Root(t), "console", "src"),
		Username: "admin", Password: s.Password.Reveal(), Patience: int(time.Minute.Milliseconds()),
	}
}

// requireNamed checks that the names in ROUTES are those of routes.
func requireNamed(t *testing.T, table []consoleRoute) {
	t.Helper()
	var names []string
	for _, r := range slices.Concat(table, emptyRoutes()) {
		names = append(names, r.Name)
	}
	if only := os.Getenv("ROUTES"); only != "" {
		require.Subset(t, names, strings.Split(only, ","), "ROUTES names routes that do not exist")
	}
}

// failedLoad is the line that Chromium writes for each error response.
var failedLoad = regexp.MustCompile(`^Failed to load resource: the server responded with a status of (\d{3}) `)

func requireRoutes(ctx context.Context, t *testing.T, task consoleTask, table []consoleRoute) {
	t.Helper()
	task.Looks, task.Routes = consoleLooks(), consoleRoutes(t, table)
	if len(task.Routes) == 0 { // ROUTES names others
		return
	}
	listed := map[string][]string{}
	for _, r := range task.Routes {
		listed[r.Name] = r.statuses
	}
	var visits []consoleVisit
	drive(ctx, t, task, "routes.mjs", &visits)
	require.GreaterOrEqual(t, len(visits), len(task.Routes))
	for _, v := range visits {
		t.Run(strings.Join([]string{v.Route, v.Scheme, strconv.Itoa(v.Width)}, " "), func(t *testing.T) {
			require.Empty(t, v.Failed)
			require.NotEmpty(t, v.Heading)
			require.Empty(t, v.Faults, "axe must find no accessibility violations")
			require.Empty(t, v.Raw, "the page must show no key of a text")
			require.Empty(t, v.Policy, "the page must not violate its content security policy")
			require.Empty(t, v.Elsewhere, "the page must send no request to another host")
			require.Zero(t, v.Wide, "the page must not scroll horizontally")
			require.Empty(t, v.Cut, "at this width, tables must show all their columns")
			require.Empty(t, v.Hidden, "the active tab must be in view")
			require.ElementsMatch(t, listed[v.Route], v.Statuses, "the error responses")
			for _, line := range v.Console {
				require.Regexp(t, failedLoad, line, "the console must show no errors except those of the listed responses")
			}
		})
	}
}
