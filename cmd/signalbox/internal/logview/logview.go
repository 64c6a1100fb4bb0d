// Package logview owns how lines of a log are printed. On a terminal, a line can change its colours and nothing else:
// other escape sequences and control characters are left out, so that a training cannot control the terminal of the
// person who reads its log. In a file or a pipe, a line is printed as it was stored.
package logview

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Line is a line of a log, as the API has it.
type Line struct {
	Seq     int64   `json:"seq"`
	Attempt int     `json:"attempt"`
	TS      *string `json:"ts"`
	Text    string  `json:"text"`
	Rank    *int    `json:"rank"`
	Node    *string `json:"node"`
}

// Writer prints lines.
type Writer struct {
	Out io.Writer
	// Labels states that the number, the time and the rank are printed before each line.
	Labels bool
	// Terminal states that Out is a terminal of the given width. Color states whether it shows colours.
	Terminal, Color bool
	Width           int
	Zone            *time.Location

	unfinished int // rows of the terminal that unfinished lines occupy
}

// Line prints a line.
func (w *Writer) Line(l Line) error {
	line := l.Text
	if w.Terminal {
		line = harmless(line, w.Color)
	}
	if w.Labels {
		line = w.label(l) + line
	}
	_, err := io.WriteString(w.Out, w.erase()+line+"\n")
	return err
}

func (w *Writer) label(l Line) string {
	at := ""
	if l.TS != nil {
		if t, err := time.Parse(time.RFC3339, *l.TS); err == nil {
			at = t.In(w.Zone).Format("15:04:05.000")
		}
	}
	rank := 0
	if l.Rank != nil {
		rank = *l.Rank
	}
	return fmt.Sprintf("%d %s [%d] ", l.Seq, at, rank)
}

// maxUnfinished is how many unfinished lines a terminal shows.
const maxUnfinished = 4

// Unfinished shows the lines that are not finished yet, such as a progress bar, in place of those shown before. Only a
// terminal shows them.
func (w *Writer) Unfinished(lines []Line) error {
	if !w.Terminal || w.Width <= 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString(w.erase())
	for _, l := range lines[:min(len(lines), maxUnfinished)] {
		// A line that the terminal would break takes more rows than are erased.
		line := strings.ReplaceAll(harmless(l.Text, false), "\t", " ")
		b.WriteString(text.Trim(line, w.Width-1) + "\n")
		w.unfinished++
	}
	_, err := io.WriteString(w.Out, b.String())
	return err
}

// erase returns what removes the unfinished lines from the terminal.
func (w *Writer) erase() string {
	if w.unfinished == 0 {
		return ""
	}
	up := fmt.Sprintf("\x1b[%dA\x1b[J", w.unfinished)
	w.unfinished = 0
	return up
}
