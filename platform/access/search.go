package access

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// SearchLimit is the number of results of a search without a limit.
const SearchLimit = 20

// searchTerms is the maximum number of words of a search; further words are ignored.
const searchTerms = 8

// Search states what a caller searches for.
type Search struct {
	Text    string
	Kinds   []string // empty for all kinds
	Project string   // the key or the id of the only project; empty for all projects
	Limit   int
}

// Hit is an object that a search found.
type Hit struct {
	Kind    string `db:"-"`
	ID      string
	Title   string
	Project *string
	Text    string // the beginning of the description if its words match; otherwise empty
	Score   float64
}

// Find searches the tables of the wanted kinds for objects that callers with the scope may read. It returns the best
// hits, best first. Permission is part of each statement, so that the hits and their scores depend only on objects that
// the caller may read.
func (s Search) Find(ctx context.Context, q pg.Querier, scope authn.Scope, tables []SearchTable) ([]*Hit, error) {
	words := strings.Fields(s.Text)
	words = words[:min(len(words), searchTerms)]
	if len(words) == 0 {
		return nil, nil
	}
	var all []*Hit
	for _, t := range tables {
		if len(s.Kinds) > 0 && !slices.Contains(s.Kinds, t.Kind) {
			continue
		}
		found, err := t.find(ctx, q, scope, s, words)
		if err != nil {
			return nil, fmt.Errorf("search kind %s: %w", t.Kind, err)
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b *Hit) int { return cmp.Compare(b.Score, a.Score) })
	return all[:min(len(all), s.Limit)], nil
}

// find returns the hits in one table. Only if they are few, it also looks for similar names, because that costs more.
func (t SearchTable) find(ctx context.Context, q pg.Querier, scope authn.Scope, s Search, words []string) ([]*Hit, error) {
	text := strings.Join(words, " ")
	args := []any{scope.Admin, scope.UserID, scope.Projects, text, s.Project, s.Limit}
	if t.OfTeams {
		args[2] = scope.TeamsRead
	}
	rows, err := q.Query(ctx, t.matching(), append(args, words)...)
	found, err := pg.All[Hit](rows, err)
	if err != nil {
		return nil, err
	}
	if len(found) < s.Limit {
		rows, err := q.Query(ctx, t.similar(), args...)
		similar, err := pg.All[Hit](rows, err)
		if err != nil {
			return nil, err
		}
		for _, h := range similar {
			if !slices.ContainsFunc(found, func(f *Hit) bool { return f.ID == h.ID }) {
				found = append(found, h)
			}
		}
	}
	for i := range found {
		found[i].Kind = t.Kind
	}
	return found[:min(len(found), s.Limit)], nil
}
