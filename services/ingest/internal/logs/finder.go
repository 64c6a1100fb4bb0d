package logs

import "bytes"

// finder is a search in progress. It reads the lines in their order. Whether a line is returned is known when as many lines
// behind it have been read as the query wants around a match. A finder therefore begins to read that many lines before the
// first one that it may return.
type finder struct {
	around  int64
	matches func(text []byte) bool
	full    func(*Found) bool // reports, after each line, whether the search must end
	found   *Found

	first int64 // number of the line after which lines are returned
	last  int64 // number of the last line that is searched
	at    int64 // number of the last line that was read
	match int64 // number of the last line that matches; far before all lines until one matches
	shown int64 // number of the last line that was returned
	// waiting are the lines that are returned if one of the next lines matches.
	waiting []waitingLine
	// cut means that the search has ended before it returned all lines that had waited.
	cut bool
}

type waitingLine struct {
	Line

	text []byte
}

func newFinder(q *Query, last int64, full func(*Found) bool) *finder {
	first, around := min(q.After, last), int64(q.Context)
	return &finder{
		around: around, matches: q.matcher(), full: full, found: &Found{}, first: first, last: last, at: max(0, first-around), match: -around,
	}
}

// searched returns the number of the last line that needs not be read again: whether it is returned is known. That is not
// the last line of the log, because a line that is written later may match and be near.
func (f *finder) searched() int64 {
	if f.cut {
		return f.shown
	}
	return max(f.first, f.shown, min(f.at, f.last)-f.around)
}

// complete reports whether all lines have been searched.
func (f *finder) complete() bool { return !f.cut && f.at >= f.last }

// ended reports whether the search must end, and has made progress.
func (f *finder) ended() bool { return f.full(f.found) && f.searched() > f.first }

// add searches a row, and reports whether the search must end. It checks that after each line, or once for a row that is skipped.
func (f *finder) add(c storedChunk) (ended bool) {
	if c.data == nil {
		f.at = c.last
		f.forget()
		return f.ended()
	}
	l := c.Line
	for text := range bytes.SplitSeq(bytes.TrimSuffix(c.data, []byte("\n")), []byte("\n")) {
		if l.Seq > f.at {
			f.at = l.Seq
			if f.read(waitingLine{l, text}) {
				return true
			}
		}
		l.Seq++
	}
	return false
}

// read searches a line, and reports whether the search must end.
func (f *finder) read(l waitingLine) (ended bool) {
	switch {
	case f.matches(l.text):
		for _, before := range f.waiting {
			if f.show(before) && f.full(f.found) {
				f.cut = true
				return true
			}
		}
		f.waiting, f.match = f.waiting[:0], l.Seq
		if f.show(l) {
			f.found.Matches = append(f.found.Matches, l.Seq)
		}
	case l.Seq-f.match <= f.around:
		f.show(l)
	case f.around > 0:
		f.waiting = append(f.waiting, l)
		f.forget()
	}
	return f.ended()
}

// show returns a line, unless it is before those that the query selects.
func (f *finder) show(l waitingLine) (shown bool) {
	if l.Seq <= f.first {
		return false
	}
	l.Text, f.shown = string(l.text), l.Seq
	f.found.Lines = append(f.found.Lines, l.Line)
	return true
}

// forget drops the lines that waited for a match until the last one around them was read.
func (f *finder) forget() {
	for len(f.waiting) > 0 && f.waiting[0].Seq <= f.at-f.around {
		f.waiting = f.waiting[1:]
	}
}
