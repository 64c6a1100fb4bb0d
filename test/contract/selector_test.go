package contract

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/contract/exchange"
)

// selected returns the routes that match all words of a selector. A word is `credential=user`, `role=admin`,
// `kind=rpc`, `service=auth`, `handler=oauth`, `method=POST`, `path=/x`, `path-id`, `variable`, `list`, `body`,
// `in-maintenance`, or one of them with the prefix `not:`.
func selected(t testing.TB, selector string) []route.Route {
	t.Helper()
	var out []route.Route
	for _, rt := range route.Table() {
		matches := func(word string) bool {
			plain, isNot := strings.CutPrefix(word, "not:")
			return matchesWord(t, rt, plain) != isNot
		}
		if !slices.ContainsFunc(strings.Fields(selector), func(word string) bool { return !matches(word) }) {
			out = append(out, rt)
		}
	}
	require.NotEmpty(t, out, "no route matches %s", selector)
	return out
}

func matchesWord(t testing.TB, rt route.Route, word string) bool {
	t.Helper()
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "credential":
		return rt.Credential == value
	case "role":
		return rt.Role == value
	case "kind":
		return string(rt.Kind) == value
	case "service":
		return rt.Service == value
	case "handler":
		return rt.Handler == value
	case "method":
		return rt.Method == value
	case "path":
		return rt.Pattern == value
	case "path-id":
		return strings.Contains(rt.Pattern, "_id}") || strings.Contains(rt.Pattern, "{id}")
	case "variable":
		return strings.Contains(rt.Pattern, "{")
	case "body":
		return example(t, rt) != ""
	case "in-maintenance":
		return rt.InMaintenance
	case "list":
		if rt.Kind != route.RPC || rt.Method != http.MethodGet {
			return false
		}
		fields := inputOf(t, rt).Fields()
		return fields.ByName("limit") != nil && fields.ByName("offset") != nil
	default:
		require.FailNow(t, "unknown selector "+word)
		return false
	}
}

// inputOf returns the input message of a route's RPC.
func inputOf(t testing.TB, rt route.Route) protoreflect.MessageDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(rt.RPC, "/", ".")))
	require.NoError(t, err)
	return d.(protoreflect.MethodDescriptor).Input()
}

// missingID returns a well-formed id that does not exist.
func missingID(prefix string) string { return prefix + "_00000000000000000000000000" }

// routeVars returns the variables for a request to the route. The ids in path are well-formed but do not exist.
// The ids in malformed_path are malformed. In odd_path each parameter contains an encoded backslash.
func routeVars(t testing.TB, rt route.Route) map[string]string {
	t.Helper()
	method := rt.Method
	if method == "*" {
		method = http.MethodGet
	}
	return map[string]string{
		"method": method, "path": fillPath(rt.Pattern, missingID), "malformed_path": fillPath(rt.Pattern, malformed),
		"odd_path": placeholder.ReplaceAllString(rt.Pattern, "a%5cb"), "body": example(t, rt),
	}
}

// malformed returns an id that is not well formed.
func malformed(prefix string) string { return prefix + "-nonsense" }

// placeholder matches a parameter of a route pattern, such as {job_id}.
var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// fillPath replaces each placeholder of a pattern by a name that does not exist, or by the id that the given function
// returns for the prefix.
func fillPath(pattern string, of func(prefix string) string) string {
	known := pathValues(of)
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		name, isVariable := strings.CutPrefix(s, "{")
		if !isVariable {
			continue
		}
		name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
		segments[i] = known[name]
		if name == "id" {
			segments[i] = of(strings.TrimSuffix(segments[i-1], "s"))
		}
		if segments[i] == "" {
			segments[i] = "none"
		}
	}
	return strings.Join(segments, "/")
}

func pathValues(of func(prefix string) string) map[string]string {
	v := map[string]string{
		"version": "1", "number": "1", "username": "nobody", "subject_kind": "users", "subject": "nobody", "key": "no.such",
		"user_code": "BCDF-GHJK", "rest": "models",
	}
	for name, prefix := range map[string]string{
		"dataset": "ds", "fleet": "flt", "deployment": "dep", "token": "tok", "model": "mdl", "job": "job", "run": "run", "user": "usr",
		"team": "team", "project": "prj", "session": "ses", "node": "nod", "share": "shr", "join_token": "jtk", "environment": "env", "rubric": "rub", "artifact": "art",
		"request": "req", "playground": "pg", "application": "sap", "solution": "sol", "package": "pkg",
	} {
		v[name+"_id"] = of(prefix)
	}
	return v
}

// coveredByGoldens returns the names of the goldens that cover each route and status.
func coveredByGoldens(t testing.TB, all []*exchange.Golden) map[exchange.Covered][]string {
	t.Helper()
	out := map[exchange.Covered][]string{}
	for _, g := range all {
		covers, err := g.Covers()
		require.NoError(t, err)
		if g.Each != "" {
			_, each, _ := g.Parts()
			status := each.Steps[len(each.Steps)-1].Response.Status
			for _, rt := range selected(t, g.Each) {
				covers = append(covers, exchange.Covered{Route: rt.Method + " " + rt.Pattern, Status: status})
			}
		}
		for _, c := range covers {
			out[c] = append(out[c], g.Name)
		}
	}
	return out
}
