package contract

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sentences splits the specification into the sentences that the table of rules must list: headings,
// sentences of text and of list items, and table rows. The cells of a table row are joined by a middle dot.
// Further sentences in a row are listed separately.
func sentences(text string) []string {
	var out, paragraph []string
	flush := func() {
		out = append(out, splitSentences(strings.Join(paragraph, " "))...)
		paragraph = nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " ")
		item := listItem.FindString(line)
		switch {
		case strings.HasPrefix(line, "#"):
			flush()
			out = append(out, strings.TrimSpace(strings.TrimLeft(line, "#")))
		case strings.HasPrefix(line, "|"):
			flush()
			below := ""
			if i+1 < len(lines) {
				below = lines[i+1]
			}
			if !isTableRule(line) && !isTableRule(below) {
				out = append(out, splitSentences(joinCells(line))...)
			}
		case item != "":
			flush()
			paragraph = []string{line[len(item):]}
			flush()
		case line == "":
			flush()
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return out
}

var (
	listItem = regexp.MustCompile(`^(\d+\.|-) `)
	// sentenceStart matches the beginning of a sentence that follows a full stop.
	sentenceStart = regexp.MustCompile("^(\\s+)([A-Z`\"{/|])")
)

// isTableRule reports whether a line is the row of dashes below the header of a table.
func isTableRule(line string) bool {
	return strings.HasPrefix(line, "|") && strings.Trim(line, "|- ") == ""
}

func joinCells(row string) string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return strings.TrimSpace(strings.Join(cells, " · "))
}

// splitSentences splits a text after each full stop if sentenceStart matches the rest of the text.
func splitSentences(text string) []string {
	var out []string
	start := 0
	for i := range text {
		if text[i] != '.' {
			continue
		}
		if next := sentenceStart.FindStringSubmatch(text[i+1:]); next != nil {
			out = append(out, strings.TrimSpace(text[start:i+1]))
			start = i + 1
		}
	}
	if last := strings.TrimSpace(text[start:]); last != "" {
		out = append(out, last)
	}
	return out
}

func TestSentences(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"Title", "One sentence; of two halves.", "Another e.g. with `a.b` and 3.5 over two lines.",
		"First item.", "Its second sentence.", "Item of dashes", "POST · /api/x · one thing.", "Another thing. · more", "last · cell ·", "Last",
	}, sentences(`# Title

One sentence; of two halves. Another e.g. with `+"`a.b`"+` and 3.5
over two lines.
1. First item. Its second sentence.
- Item of dashes

| Method | Path | What |
|---|---|---|
| POST | /api/x | one thing. Another thing. | more |
| last | cell | |
Last`))
}
