package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

const (
	// gap is the space between two columns.
	gap = "  "
	// narrowest is the number of characters to which a column is cut at most.
	narrowest = 8
	ellipsis  = "…"
)

// shown returns the columns of a table: those that the user has selected, or those of the format.
func (p *Printer) shown(columns []Column, rows []any) ([]Column, error) {
	if len(p.Columns) == 0 {
		return slices.DeleteFunc(slices.Clone(columns), func(c Column) bool { return c.Wide && p.Format != Wide }), nil
	}
	out := make([]Column, 0, len(p.Columns))
	for _, name := range p.Columns {
		name = strings.TrimSpace(name)
		if i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name }); i >= 0 {
			out = append(out, columns[i])
			continue
		}
		exists := func(row any) bool { _, ok := lookup(row, name); return ok }
		if name == "" || len(rows) > 0 && !slices.ContainsFunc(rows, exists) {
			return nil, fmt.Errorf("%w: %q; use %s, or the path of a member in -o json", ErrNoColumn, name, strings.Join(names(columns), ", "))
		}
		out = append(out, Column{Name: name})
	}
	return out, nil
}

func names(columns []Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name
	}
	return out
}

// table prints a list as a table.
func (p *Printer) table(columns []Column, rows []json.RawMessage) error {
	values := make([]any, len(rows))
	for i, row := range rows {
		value, err := decode(row)
		if err != nil {
			return err
		}
		values[i] = value
	}
	shown, err := p.shown(columns, values)
	if err != nil {
		return err
	}
	cells := make([][]string, len(values))
	for i, value := range values {
		for _, c := range shown {
			cells[i] = append(cells[i], c.format(value, p.Now()))
		}
	}
	headings := make([]string, len(shown))
	for i, c := range shown {
		headings[i] = strings.ToUpper(strings.ReplaceAll(c.Name, "_", " "))
	}
	if !p.Headings {
		headings = nil
	}
	return p.render(shown, headings, cells)
}

// lines prints an object with a line for each column: its name and its value. Columns without a value are left out.
func (p *Printer) lines(columns []Column, object json.RawMessage) error {
	value, err := decode(object)
	if err != nil {
		return err
	}
	all := *p
	all.Format, all.Width = Wide, 0 // nothing is left out of a single object
	shown, err := all.shown(columns, []any{value})
	if err != nil {
		return err
	}
	var cells [][]string
	for _, c := range shown {
		if cell := c.format(value, p.Now()); cell != "" {
			cells = append(cells, []string{c.Name, cell})
		}
	}
	return all.render([]Column{{Name: "field"}, {Name: "value"}}, nil, cells)
}

// render prints cells as a table without lines, cut to the width of the terminal.
func (p *Printer) render(columns []Column, headings []string, cells [][]string) error {
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	t.SuppressTrailingSpaces()
	widths := p.widths(columns, headings, cells)
	configs := make([]table.ColumnConfig, len(columns))
	for i, c := range columns {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMax: widths[i], WidthMaxEnforcer: cut}
		if c.Right {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.SetColumnConfigs(configs)
	if headings != nil {
		t.AppendHeader(tableRow(headings))
	}
	for _, row := range cells {
		t.AppendRow(p.colored(columns, row))
	}
	rendered := t.Render()
	if rendered == "" {
		return nil
	}
	_, err := io.WriteString(p.Out, rendered+"\n")
	return err
}

func plainStyle() table.Style {
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", gap
	style.Format.Header = text.FormatDefault
	return style
}

func tableRow(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return row
}

// cut shortens a text to a number of characters and ends it with an ellipsis.
func cut(value string, width int) string {
	if text.StringWidthWithoutEscSequences(value) <= width {
		return value
	}
	return text.Trim(value, width-1) + ellipsis
}

// widths returns the maximum width of each column. The widest columns are cut until the table fits into the terminal,
// but no column of ids: a part of an id is of no use.
func (p *Printer) widths(columns []Column, headings []string, cells [][]string) []int {
	widths := make([]int, len(columns))
	for _, row := range append([][]string{headings}, cells...) {
		for i, cell := range row {
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(cell))
		}
	}
	if p.Width <= 0 {
		return widths
	}
	total := len(gap) * (len(columns) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > p.Width; total-- {
		widest := -1
		for i, w := range widths {
			if w > narrowest && !columns[i].isID() && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// colored returns the cells of a row, with the colours of its states.
func (p *Printer) colored(columns []Column, cells []string) table.Row {
	row := tableRow(cells)
	if !p.Color {
		return row
	}
	for i, c := range columns {
		state := c.Name == "state" || c.Name == "status" || c.Name == "value" && cells[0] == "state"
		if color, ok := stateColor(cells[i]); ok && state {
			row[i] = color.Sprint(cells[i])
		}
	}
	return row
}

// stateColor returns the colour of a state: green if all is well, yellow if something waits, red if something failed.
func stateColor(state string) (text.Color, bool) {
	switch state {
	case "running", "ready", "active", "succeeded", "committed", "promoted", "ok", "live", "serving", "online":
		return text.FgGreen, true
	case "queued", "scheduled", "starting", "pausing", "paused", "stopping", "draining", "cordoned", "pending", "suspended", "warning":
		return text.FgYellow, true
	case "failed", "lost", "error", "crashed", "offline", "degraded":
		return text.FgRed, true
	}
	return 0, false
}
