package command

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

// kind is a kind of object with a list and ids.
type kind struct {
	one, many string
	// lister is the command that lists the objects, without signalbox, if it is not `MANY ls`.
	lister string
	// path is that of the list; the path of an object is the list's, a slash and its id.
	path string
	// prefix begins each id. It is empty if objects are identified by their names only.
	prefix string
	// name is the member with the name by which people call an object.
	name string
	// search is the parameter of the list that finds objects by a part of their name, if it has one.
	search string
	// query is what the list needs to show all objects.
	query url.Values
	// names is what a search for a name adds, to find objects that the list does not show.
	names url.Values
	// inProject states that the list selects those of a project by the parameter project.
	inProject bool
	// stream states that the list has a stream of its changes.
	stream  bool
	columns []output.Column
	// details are further columns for one object.
	details []output.Column
	// note returns a line about the rows of a table, or an empty text. It is nil if a table needs no such line.
	note func(rows []json.RawMessage) string
}

func jobKind() kind {
	return kind{
		one: "job", many: "jobs", path: "/api/jobs", prefix: "job_", name: "name", search: "q", inProject: true, stream: true,
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "state"},
			{Name: "project"},
			{Name: "owner"},
			{Name: "recipe", Path: "spec.recipe.name", Wide: true},
			{Name: "run", Path: "run_id", Wide: true},
			{Name: "attempt", Wide: true, Right: true},
			{Name: "priority", Wide: true, Right: true},
			{Name: "labels", Wide: true},
			{Name: "reason", Path: "end_reason", Wide: true},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
		details: []output.Column{
			{Name: "message"},
			{Name: "queue", As: waiting},
			{Name: "slurm"},
			{Name: "pools", Path: "spec.resources.pools.0.pool"},
			{Name: "warnings"},
			{Name: "created", Path: "created_at", As: output.Time},
			{Name: "running", Path: "running_at", As: output.Time},
			{Name: "ended", Path: "ended_at", As: output.Time},
			{Name: "checkpoint", Path: "checkpoint.step"},
			{Name: "collected"},
		},
	}
}

func runKind() kind {
	return kind{
		one: "run", many: "runs", path: "/api/runs", prefix: "run_", name: "name", search: "q", inProject: true, stream: true,
		query: url.Values{"state": {"all"}}, names: url.Values{"archived": {"all"}},
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "state"},
			{Name: "project"},
			{Name: "owner"},
			{Name: "recipe", Path: "recipe_lock.name", Wide: true},
			{Name: "job", Path: "job_id", Wide: true},
			{Name: "attempts", Wide: true, Right: true},
			{Name: "tags"},
			{Name: "labels", Wide: true},
			{Name: "reason", Path: "end_reason", Wide: true},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
		details: []output.Column{
			{Name: "protected"},
			{Name: "archived"},
			{Name: "created", Path: "created_at", As: output.Time},
			{Name: "started", Path: "started_at", As: output.Time},
			{Name: "ended", Path: "ended_at", As: output.Time},
			{Name: "parents", Path: "parents.0.run_id"},
			{Name: "notes"},
		},
	}
}

// listedBy returns the command that lists the objects of the kind.
func (k kind) listedBy() string {
	if k.lister != "" {
		return "signalbox " + k.lister
	}
	return "signalbox " + k.many + " ls"
}

// named returns the name of the kind for a number of objects.
func (k kind) named(n int) string {
	if n == 1 {
		return k.one
	}
	return k.many
}

// upper is how a usage line calls an object of the kind.
func upper(k kind) string { return strings.ToUpper(k.one) }

// at returns the path of an object, or of what is below it.
func (k kind) at(id string, below ...string) string {
	parts := append(make([]string, 0, 2+len(below)), k.path, url.PathEscape(id))
	for _, part := range below {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}
