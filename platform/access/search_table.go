package access

// SearchTable describes the objects of one kind. Its fields are parts of SQL statements, never text of callers. A
// large table needs the indexes that the migrations of search create for the expression Name: of name_pairs(lower(Name)),
// of the trigrams of lower(Name), and of lower(Name).
type SearchTable struct {
	Kind, Table string
	Name        string // what is searched: the name, or several columns
	Title       string // the column that is shown
	Project     string // the key of the project, or NULL
	Text        string // the column of the description; empty without one
	At          string // the column with the time of creation
	// Visible is the condition for the rows that the caller may read. It uses $1 (whether the caller is an admin), $2 (the
	// caller's id), $3 (the caller's projects or, with OfTeams, teams) and $5 (the wanted project; empty for all).
	Visible string
	OfTeams bool
}

// OwnedTable describes a table with the columns of an Owner, and with id, name and created_at. The description is the
// column text, if that is not empty. The condition kept, if not empty, excludes deleted rows.
func OwnedTable(kind, table, text, kept string) SearchTable {
	return SearchTable{
		Kind: kind, Table: table, Name: `name`, Title: `name`, Project: `project`, Text: text, At: `created_at`,
		Visible: Visible + ` AND ($5 = '' OR $5 IN (project, project_id))` + kept,
	}
}

// columns returns the columns of a hit, with the expression text as its text.
func (t SearchTable) columns(text string) string {
	return `id, ` + t.Title + ` AS title, ` + t.Project + `::text AS project, ` + text + ` AS text, ` + t.At + ` AS at`
}

// pairsMax is the maximum number of rows that are ranked; if more names contain the words, some of them are not found.
const pairsMax = `1000`

// matching returns the statement that finds the object with the id $4, names that are $4 or contain each word of $7, and
// descriptions with the words of $4. The pairs of characters of the words select the names by index, also if a word has
// only two characters, which have no trigram.
func (t SearchTable) matching() string {
	from := ` FROM ` + t.Table + ` WHERE ` + t.Visible
	return `SELECT id, title, project, text, score FROM (SELECT DISTINCT ON (id) * FROM (
		(SELECT ` + t.columns(`''`) + `, 1::float8 AS score` + from + ` AND id = $4)
		UNION ALL (SELECT ` + t.columns(`''`) + `, 0.95` + from + ` AND lower(` + t.Name + `) = lower($4) ORDER BY ` + t.At + ` DESC LIMIT $6)
		UNION ALL (SELECT ` + t.columns(`''`) + `, CASE WHEN starts_with(lower(` + t.Name + `), lower($4)) THEN 0.8
				WHEN strpos(lower(` + t.Name + `), lower($4)) > 0 THEN 0.7 ELSE 0.6 END` + from + `
			AND name_pairs(lower(` + t.Name + `)) @> (SELECT array_agg(p) FROM unnest($7::text[]) w, unnest(name_pairs(lower(w))) p)
			AND NOT EXISTS (SELECT FROM unnest($7::text[]) w WHERE strpos(lower(` + t.Name + `), lower(w)) = 0) LIMIT ` + pairsMax + `)` +
		t.described(from) + `) f ORDER BY id, score DESC) g ORDER BY score DESC, at DESC, id LIMIT $6`
}

// described returns the part of the statement that finds descriptions; it is empty if the table has none.
func (t SearchTable) described(from string) string {
	if t.Text == "" {
		return ""
	}
	words := `to_tsvector('simple', ` + t.Text + `)`
	return ` UNION ALL (SELECT ` + t.columns(`left(`+t.Text+`, 2000)`) + `, 0.3 + least(ts_rank(` + words + `, plainto_tsquery('simple', $4)), 0.1)` +
		from + ` AND ` + words + ` @@ plainto_tsquery('simple', $4) LIMIT ` + pairsMax + `)`
}

// similar returns the statement that finds names with a part that is similar to $4. It reads nothing if $4 has no trigram,
// because no index would help: with the locale C, Chinese has none.
func (t SearchTable) similar() string {
	return `SELECT id, title, project, text, score FROM (SELECT ` + t.columns(`''`) + `,
			0.5 * public.word_similarity(lower($4), lower(` + t.Name + `))::float8 AS score FROM ` + t.Table + ` WHERE ` + t.Visible + `
			AND lower(` + t.Name + `) OPERATOR(public.%>) lower($4)
			AND public.show_trgm(lower($4)) <> '{}' LIMIT ` + pairsMax + `) f
		ORDER BY score DESC, at DESC, id LIMIT $6`
}
