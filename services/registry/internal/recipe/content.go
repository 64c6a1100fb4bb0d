package recipe

import (
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// maxContents is the maximum number of versions whose content a process keeps.
const maxContents = 256

// content is the part of a version that its digest covers.
type content struct {
	manifest     Manifest
	text         []byte
	requirements string
}

// contents holds parsed contents by digest. A map is never changed once another goroutine can see it.
type contents map[string]content

// Contents keeps the parsed content of versions, so that a list neither reads nor parses it again. The content with a
// given digest never changes, so kept content is never out of date. Everything else about a version is read from the
// database.
type Contents struct {
	mu   sync.Mutex
	kept contents
}

// known returns the kept contents by digest.
func (c *Contents) known() contents {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

// keep adds the contents that a list has read. If the total would exceed maxContents, it replaces the kept contents by
// those just read. If these alone exceed maxContents, it changes nothing.
func (c *Contents) keep(read contents) {
	if len(read) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := maps.Clone(read)
	if len(next)+len(c.kept) <= maxContents {
		maps.Copy(next, c.kept)
	}
	if len(next) <= maxContents {
		c.kept = next
	}
}

func (k contents) digests() []string {
	return slices.AppendSeq(make([]string, 0, len(k)), maps.Keys(k))
}

// scan returns a function that scans rows. If k contains the digest of a row, the function uses the known content,
// because the query does not read the manifest of such a row. Otherwise it parses the content and adds it to read.
func (k contents) scan(read contents) pgx.RowToFunc[*Version] {
	return func(row pgx.CollectableRow) (*Version, error) {
		v, err := scanRow(row)
		if err != nil {
			return nil, err
		}
		if known, ok := k[v.Digest]; ok {
			state := v.State
			v.Manifest, v.Text, v.RequirementsText, v.State = known.manifest, known.text, known.requirements, state
			return v, nil
		}
		if err := v.parse(); err != nil {
			return nil, err
		}
		read[v.Digest] = content{v.Manifest, v.Text, v.RequirementsText}
		return v, nil
	}
}
