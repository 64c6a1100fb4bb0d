package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

// cell is one case of the matrix: a request to a route by a caller who has a relation to the object.
type cell struct {
	routes.Row

	relation string
	want     string
}

// named matches the placeholder of the object in a body, for routes whose path contains no object.
var named = regexp.MustCompile(`<(project|team|job|run)>`)

// cells returns the cases that the table defines for a route.
func cells(r routes.Row) []cell {
	var out []cell
	for _, relation := range routes.Relations() {
		want := routes.Load().Rules[r.Rule][relation]
		none := (relation == "absent" || relation == "gone") && r.Object() == "" && !named.MatchString(r.Request)
		if want != "-" && !none {
			out = append(out, cell{Row: r, relation: relation, want: want})
		}
	}
	return out
}

// callerOf returns the person who has the relation.
func (w *harness) callerOf(relation string) *person {
	switch relation {
	case "seen", "hidden", "absent":
		return w.people["stranger"]
	case "gone":
		return w.people["admin"]
	default:
		return w.people[relation]
	}
}

// objectsOf returns the objects to which the relation applies.
func (w *harness) objectsOf(relation string) objects {
	if relation == "seen" {
		return w.open
	}
	return w.hidden
}

// missingID returns an id or a name, for a variable of paths, that identifies no object.
func missingID(name string) string {
	v, _ := routes.Load().Variable("", name)
	return v.Absent
}

// fill replaces the variables of a pattern by the ids and names of objects.
func (o objects) fill(t *testing.T, pattern string) string {
	t.Helper()
	return routes.Load().Fill(pattern, func(v routes.Variable) string {
		value := cmp.Or(o[v.Name], v.Present)
		require.NotEmpty(t, value, "%s: createObjects or a preparation must create an object for %s", pattern, v.Name)
		return value
	})
}

// with returns a copy of the objects in which a name has another value.
func (o objects) with(name, value string) objects {
	changed := maps.Clone(o)
	changed[name] = value
	return changed
}

// query returns the query with which a list shows all objects. Without a limit, those of other cells could fill the
// first page.
func query(r routes.Row) string {
	var out []string
	if r.Query != "" {
		out = append(out, r.Query)
	}
	if r.Of != "" && routes.Limited(r.Route) {
		out = append(out, "limit=500")
	}
	if out == nil {
		return ""
	}
	return "?" + strings.Join(out, "&")
}

// sendCell sends the request of a cell. It returns the response and the id or name of the object in the request.
func (w *harness) sendCell(ctx context.Context, t *testing.T, c cell) (response, string) {
	t.Helper()
	return w.sendPrepared(ctx, t, c, w.prepare(ctx, t, c))
}

// sendPrepared sends the request of a cell whose objects are already prepared. It returns the same as sendCell.
func (w *harness) sendPrepared(ctx context.Context, t *testing.T, c cell, o objects) (response, string) {
	t.Helper()
	of, _ := routes.Load().Variable(c.Pattern, c.Object())
	object, project := cmp.Or(o[of.Name], of.Present), o["project"]
	if c.relation == "absent" || c.relation == "gone" {
		object, project = of.Absent, "nothing"
		if of.Name == "" {
			o["team_id"], o["run_id"] = missingID("team_id"), missingID("run_id")
		}
	}
	p := w.callerOf(c.relation)
	path := o.with(of.Name, object).fill(t, c.Pattern) + query(c.Row)
	a := p.call(ctx, t, w.Installation, c.Method, path, w.body(c, p, o, project))
	if a.status < 300 && p.name != "" {
		w.restoreSession(ctx, t, c, p)
	}
	if a.status < 300 && o["spare of"] != "" {
		w.usedSpares[o["spare of"]]++
	}
	switch {
	case strings.Contains(c.Request, "<team>"):
		object = o["team_id"]
	case of.Name == "" && strings.Contains(c.Request, "<run>"):
		object = o["run_id"]
	case of.Name == "":
		object = project
	}
	return a, object
}

// body returns the body of a cell's request.
func (w *harness) body(c cell, p *person, o objects, project string) string {
	unique, link := w.unique(), ""
	if strings.Contains(c.Request, "<link>") {
		link = w.SignInLink(w.T.Context())
	}
	job := strings.NewReplacer("<command>", "true", "<unique>", unique, "<project>", project).Replace(w.job)
	return strings.NewReplacer(
		"<unique>", unique, "<project>", project, "<run>", o["run_id"], "<hidden-run>", w.hidden["run_id"], "<open-run>", w.open["run_id"], "<artifact>", o["artifact_id"], "<model>", o["model_id"],
		"<name>", w.heir.name, "<password>", w.heir.password, "<own-password>", p.password, "<new-password>", p.password+"!",
		"<heir>", w.heir.id, "<setting-version>", o["setting version"], "<setting-value>", o["setting value"],
		"<team>", o["team_id"], "<job>", job, "<recipe>", w.catalogVersion, "<package>", o["package_id"],
		"<join-token>", unissuedToken("fjt"), "<device-code>", unissuedToken("dvc"), "<link>", link,
	).Replace(c.Request)
}

// restoreSession signs the person in again if the request has ended the session.
func (w *harness) restoreSession(ctx context.Context, t *testing.T, c cell, p *person) {
	t.Helper()
	switch c.Pattern {
	case "/api/profile/password":
		p.password += "!"
		switch p.name {
		case "admin":
			w.Password = secret.New(p.password)
		case "newcomer":
			w.resetPassword(ctx, t, p)
		}
		w.signIn(ctx, t, p)
	case "/api/auth/logout":
		w.signIn(ctx, t, p)
	}
}

// signIn signs a person in again from another address, because an address may try to log in only ten times
// a minute.
func (w *harness) signIn(ctx context.Context, t *testing.T, p *person) {
	t.Helper()
	w.made++
	p.http = at(30000 + w.made).http
	p.login(ctx, t, w.Installation)
}

// unique returns a name that was not used before.
func (w *harness) unique() string {
	w.made++
	return fmt.Sprintf("made-%d", w.made)
}

// unissuedToken returns a token that was never issued but has a correct checksum.
func unissuedToken(kind string) string {
	token, err := secret.Mint(rand.Reader, kind)
	if err != nil {
		panic(err)
	}
	return token.Reveal()
}

// fault describes the problem with a response, or returns "" if the response is correct.
func (w *harness) fault(c cell, a response) string {
	bad := ""
	if c.Pattern == "/api/submit/preflight" && a.status == http.StatusOK {
		a.status = projectGateStatus(a.body)
	}
	switch c.want {
	case "ok", "both", "open", "none":
		if !slices.Contains(c.Success, a.status) {
			bad = fmt.Sprintf("want %v", c.Success)
		} else if c.want != "ok" {
			bad = w.checkList(c, a)
		}
	case "refused":
		if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
			bad = "want 401 or 403"
		}
	default:
		if strconv.Itoa(a.status) != c.want {
			bad = "want " + c.want
		}
	}
	if bad == "" && a.status >= 400 && c.Method != http.MethodHead && !hasDetail(a) {
		bad = "want a detail"
	}
	if bad == "" {
		return ""
	}
	return fmt.Sprintf("%s as %s: %s, got %d %.300s", c.Name(), c.relation, bad, a.status, a.body)
}

func hasDetail(a response) bool {
	var fault struct {
		Detail json.RawMessage `json:"detail"`
		Gates  []gateResult    `json:"gates"`
	}
	return json.Unmarshal(a.body, &fault) == nil && (len(fault.Detail) > 2 || len(fault.Gates) > 0)
}

// gateResult is the result of one check (a gate) in a preflight.
type gateResult struct {
	Gate    string `json:"gate"`
	Refusal int    `json:"refusal"`
}

// projectGateStatus returns the status with which the project gate would reject the submission, or 200 if it would
// accept it.
func projectGateStatus(body []byte) int {
	var report struct {
		Gates []gateResult `json:"gates"`
	}
	if json.Unmarshal(body, &report) != nil {
		return 0
	}
	for _, v := range report.Gates {
		if v.Gate == "project" && v.Refusal != 0 {
			return v.Refusal
		}
	}
	return http.StatusOK
}

// checkList checks that a list and its count contain exactly what the caller may see. It describes the problem, or
// returns "" if the list is correct.
func (w *harness) checkList(c cell, a response) string {
	type row struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	var rows []row
	if c.Pattern == "/api/runs/compare" || c.Pattern == "/api/runs/aggregate" {
		a.body = compared(a.body)
	}
	if json.Unmarshal(items(a.body), &rows) != nil {
		return "want a list"
	}
	if total := a.header.Get("X-Total-Count"); total != "" && total != strconv.Itoa(len(rows)) {
		return fmt.Sprintf("the list has %d rows, but the count is %s", len(rows), total)
	}
	has := func(o objects) bool {
		return slices.ContainsFunc(rows, func(r row) bool { return r.ID == o[c.Of] || r.Name == listed(c.Row, o) })
	}
	hidden, open := has(w.hidden), w.open[c.Of] == "" || has(w.open)
	for _, id := range w.hidden {
		if c.want != "both" && strings.Contains(id, "_") && bytes.Contains(a.body, []byte(id)) {
			return "shows " + id
		}
	}
	if hidden != (c.want == "both") || open == (c.want == "none" && w.open[c.Of] != "") {
		return fmt.Sprintf("the list contains the hidden object: %v, the open object: %v, want %s", hidden, open, c.want)
	}
	return ""
}

// listed returns what the list of a route shows of an object: its id or, if the object is identified by its namespace and
// its name, both.
func listed(r routes.Row, o objects) string {
	if r.Of == "namespace" {
		return o[r.Of] + "/" + o["name"]
	}
	return o[r.Of]
}

// items returns the rows of a list. The list is either the body itself or the member `items` or `results` of the body, or
// each row is the member `run` of an element of `runs`.
func items(body []byte) []byte {
	var wrapped struct {
		Items   json.RawMessage `json:"items"`
		Results json.RawMessage `json:"results"`
		Runs    []struct {
			Run json.RawMessage `json:"run"`
		} `json:"runs"`
	}
	if json.Unmarshal(body, &wrapped) != nil {
		return body
	}
	if wrapped.Items != nil {
		return wrapped.Items
	}
	if wrapped.Results != nil {
		return wrapped.Results
	}
	rows := make([]json.RawMessage, 0, len(wrapped.Runs))
	for _, r := range wrapped.Runs {
		rows = append(rows, r.Run)
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return body
	}
	return data
}

// compared returns the runs of a comparison, or of the groups of an aggregation, as a list. It leaves out the missing
// ones, which the request named.
func compared(body []byte) []byte {
	type named struct {
		RunIDs []string `json:"run_ids"`
	}
	var found struct {
		named
		Groups []named `json:"groups"`
	}
	if json.Unmarshal(body, &found) != nil {
		return body
	}
	rows := []map[string]string{}
	for _, g := range append(found.Groups, found.named) {
		for _, id := range g.RunIDs {
			rows = append(rows, map[string]string{"id": id})
		}
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return body
	}
	return data
}

// normalized returns the text of a response without the parts that differ between calls. It also replaces the name of
// the object.
func normalized(a response, object string) string {
	var out strings.Builder
	fmt.Fprintln(&out, a.status)
	for _, name := range []string{"Date", "X-Request-Id", "Content-Length"} {
		a.header.Del(name)
	}
	_ = a.header.Write(&out)
	text := string(a.body)
	if object != "" {
		text = strings.ReplaceAll(text, object, "<it>")
	}
	return out.String() + text
}
