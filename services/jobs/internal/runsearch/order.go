package runsearch

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// order is a sequence of runs. The ID decides between runs with the same key. Runs without the fact come last, the newest
// first.
type order struct {
	name    string // as in the request
	asc     bool
	fact    *fact
	key     string // an SQL expression with an index, if there is no fact
	keyType string
}

func orderOf(name, direction string) (order, error) {
	o := order{name: name, asc: direction == "asc"}
	if t, ok := factOf(name); ok {
		o.fact = &t
		return o, nil
	}
	o.keyType = `text`
	switch name {
	case "", "created_at":
		o.key, o.keyType = `created_at`, `timestamptz`
	case "started_at", "ended_at":
		o.key, o.keyType = `coalesce(`+name+`, 'infinity'::timestamptz)`, `timestamptz`
	case "name":
		o.key = `lower(name)`
	case "recipe":
		o.key = `coalesce(recipe_lock ->> 'name', '')`
	case "project", "owner", "state":
		o.key = textColumn(name)
	default:
		return o, fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf("Runs cannot be sorted by %q", cut(name)), "sort"))
	}
	return o, nil
}

// direction returns the SQL direction and the comparison with which the following runs are found.
func (o *order) direction() (direction, after string) {
	if o.asc {
		return ` ASC`, ` > `
	}
	return ` DESC`, ` < `
}

// place is the end of a page. Clients get it as text.
type place struct {
	Sort string `json:"s"`
	Asc  bool   `json:"a,omitempty"`
	ID   string `json:"i"`
	// Value is the fact of the last run, for an order by a fact; empty if the run has none.
	Value string `json:"v,omitempty"`
}

func (p *place) String() string {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // a place has only texts
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// placeOf parses the end of a page of the same order.
func placeOf(text string, o *order) (*place, error) {
	bad := fault.InvalidFields(fault.At(fault.TypeValue, "Input should be next of a page with the same sort and direction", "after"))
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, bad
	}
	p := &place{}
	if err := json.Unmarshal(data, p); err != nil || p.Sort != o.name || p.Asc != o.asc || id.Check(id.Run, p.ID) != nil {
		return nil, bad
	}
	if p.Value != "" {
		if x, err := strconv.ParseFloat(p.Value, 64); err != nil || x != x {
			return nil, bad
		}
	}
	return p, nil
}
