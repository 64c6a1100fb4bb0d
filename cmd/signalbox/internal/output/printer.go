package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// Printer prints the results of a command in the format that the user has chosen.
type Printer struct {
	Out    io.Writer
	Format Format
	// Filter is a compiled program of jq that is applied to the JSON of the result. Its results are printed in place of
	// the result, texts without quotes.
	Filter *gojq.Code
	// Columns are the paths of the columns of a table that the user has selected.
	Columns []string
	// Headings states whether tables have headings.
	Headings bool
	// Width is the number of columns of the terminal; tables are cut to it. 0 means no limit.
	Width int
	// Color states whether states are coloured.
	Color bool
	// Now returns the time from which ages count, in the time zone for times.
	Now func() time.Time
}

// ErrNoColumn reports a column that no row has.
var ErrNoColumn = errors.New("no such column")

// ParseFilter compiles a program of jq. It cannot read files or the environment.
func ParseFilter(program string) (*gojq.Code, error) {
	parsed, err := gojq.Parse(program)
	if err != nil {
		return nil, fmt.Errorf("parse the jq expression: %w", err)
	}
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, fmt.Errorf("compile the jq expression: %w", err)
	}
	return code, nil
}

// Rows prints a list. As JSON and YAML it is an array, also if it is empty.
func (p *Printer) Rows(columns []Column, rows []json.RawMessage) error {
	switch {
	case p.Filter != nil:
		return p.filter(array(rows))
	case p.Format == JSON:
		return writeIndented(p.Out, array(rows))
	case p.Format == YAML:
		return writeYAML(p.Out, array(rows))
	}
	if p.Format.IsTable() {
		return p.table(columns, rows)
	}
	for _, row := range rows {
		if err := p.line(row); err != nil {
			return err
		}
	}
	return nil
}

// Object prints one object. As a table it has a line for each column.
func (p *Printer) Object(columns []Column, object json.RawMessage) error {
	switch {
	case p.Filter != nil:
		return p.filter(object)
	case p.Format == JSON:
		return writeIndented(p.Out, object)
	case p.Format == YAML:
		return writeYAML(p.Out, object)
	}
	if p.Format.IsTable() {
		return p.lines(columns, object)
	}
	return p.line(object)
}

// Row prints one row of a list that has no end, such as a stream of events: as JSON one line each, as YAML a document
// each, and as a table the values with two spaces between them.
func (p *Printer) Row(columns []Column, row json.RawMessage) error {
	switch {
	case p.Filter != nil:
		return p.filter(row)
	case p.Format == JSON:
		return writeCompact(p.Out, row)
	case p.Format == YAML:
		if _, err := io.WriteString(p.Out, "---\n"); err != nil {
			return err
		}
		return writeYAML(p.Out, row)
	}
	if !p.Format.IsTable() {
		return p.line(row)
	}
	value, err := decode(row)
	if err != nil {
		return err
	}
	shown, err := p.shown(columns, []any{value})
	if err != nil {
		return err
	}
	cells := make([]string, len(shown))
	for i, c := range shown {
		cells[i] = c.format(value, p.Now())
	}
	_, err = fmt.Fprintln(p.Out, strings.TrimRight(strings.Join(cells, "  "), " "))
	return err
}

// line prints a value on one line: as JSON, or its name.
func (p *Printer) line(row json.RawMessage) error {
	if p.Format == Lines {
		return writeCompact(p.Out, row)
	}
	name, err := NameOf(row)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, name)
	return err
}

// NameOf returns what identifies an object in other commands: its id, or what it has in place of one.
func NameOf(row json.RawMessage) (string, error) {
	value, err := decode(row)
	if err != nil {
		return "", err
	}
	if text, ok := value.(string); ok {
		return text, nil
	}
	for _, member := range []string{"id", "user_id", "key", "name", "username", "number", "version", "seq", "path"} {
		if found, ok := lookup(value, member); ok && found != nil {
			return Printable(Text(found, time.Time{})), nil
		}
	}
	return "", errors.New("the objects have no name; use another format than name")
}

// filter prints the results of the jq program.
func (p *Printer) filter(raw json.RawMessage) error {
	value, err := decode(raw)
	if err != nil {
		return err
	}
	for results := p.Filter.Run(plain(value)); ; {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, failed := result.(error); failed {
			if halt, stopped := errors.AsType[*gojq.HaltError](err); stopped && halt.Value() == nil {
				return nil
			}
			return fmt.Errorf("apply the jq expression: %w", err)
		}
		if err := p.result(result); err != nil {
			return err
		}
	}
}

func (p *Printer) result(value any) error {
	if text, ok := value.(string); ok && !p.encoded() {
		_, err := fmt.Fprintln(p.Out, text)
		return err
	}
	raw, err := gojq.Marshal(value)
	if err != nil {
		return fmt.Errorf("print a result of the jq expression: %w", err)
	}
	switch p.Format {
	case YAML:
		return writeYAML(p.Out, raw)
	case JSON:
		return writeIndented(p.Out, raw)
	default:
		return writeCompact(p.Out, raw)
	}
}

// encoded reports whether texts are printed as JSON or YAML too.
func (p *Printer) encoded() bool { return p.Format == YAML }
