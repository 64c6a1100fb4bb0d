package output

import (
	"bytes"
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
	// FilterRows states that the filter is applied to each row of a list, and not to the whole array.
	FilterRows bool
	// Columns are the paths of the columns of a table that the user has selected.
	Columns []string
	// Headings states whether tables have headings.
	Headings bool
	// Width is the number of columns of the terminal; tables are cut to it. 0 means no limit.
	Width int
	// Color states whether states are coloured.
	Color bool
	// Terminal states that Out is a terminal. What would control it is then escaped in all formats.
	Terminal bool
	// Now returns the time from which ages count, in the time zone for times.
	Now func() time.Time

	streamed bool // whether Row has printed a row as a table
}

// ForPeople reports whether the output is a table, and not the values for a program.
func (p *Printer) ForPeople() bool { return p.Format.IsTable() && p.Filter == nil }

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
	case p.Filter != nil && !p.FilterRows:
		return p.filter(array(rows))
	case p.Filter == nil && (p.Format == JSON || p.Format == YAML):
		return p.encode(array(rows))
	case p.Filter == nil && p.Format.IsTable():
		return p.table(columns, rows)
	}
	for _, row := range rows {
		if err := p.Row(columns, row); err != nil {
			return err
		}
	}
	return nil
}

// Object prints one object. As a table it has a line for each column, which is not cut.
func (p *Printer) Object(columns []Column, object json.RawMessage) error {
	switch {
	case p.Filter != nil:
		return p.filter(object)
	case p.Format == JSON || p.Format == YAML:
		return p.encode(object)
	case p.Format.IsTable():
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
	case p.Format == YAML:
		if _, err := io.WriteString(p.Out, "---\n"); err != nil {
			return err
		}
		return p.encode(row)
	case !p.Format.IsTable():
		return p.line(row)
	}
	value, err := decode(row)
	if err != nil {
		return err
	}
	// A later row may lack a member that an earlier one has.
	known := []any{value}
	if p.streamed {
		known = nil
	}
	shown, err := p.shown(columns, known)
	if err != nil {
		return err
	}
	p.streamed = true
	cells := make([]string, len(shown))
	for i, c := range shown {
		cells[i] = c.format(value, p.Now())
	}
	_, err = fmt.Fprintln(p.Out, strings.TrimRight(strings.Join(cells, "  "), " "))
	return err
}

// encode prints a value as JSON or YAML with indents.
func (p *Printer) encode(raw json.RawMessage) error {
	write := writeIndented
	if p.Format == YAML {
		write = writeYAML
	}
	var b bytes.Buffer
	if err := write(&b, raw); err != nil {
		return err
	}
	return p.emit(b.String())
}

// line prints a value on one line: its name, or JSON.
func (p *Printer) line(row json.RawMessage) error {
	if p.Format == Name {
		name, err := NameOf(row)
		if err != nil {
			return err
		}
		return p.emit(name + "\n")
	}
	var b bytes.Buffer
	if err := writeCompact(&b, row); err != nil {
		return err
	}
	return p.emit(b.String())
}

// emit prints lines. On a terminal, the characters that would control it are escaped as in JSON.
func (p *Printer) emit(lines string) error {
	if p.Terminal {
		lines = escaped(lines)
	}
	_, err := io.WriteString(p.Out, lines)
	return err
}

// NameOf returns what identifies an object in other commands: its id, or what it has in place of one.
func NameOf(row json.RawMessage) (string, error) {
	value, err := decode(row)
	if err != nil {
		return "", err
	}
	if text, ok := value.(string); ok {
		return Printable(text), nil
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
			return halted(err)
		}
		if err := p.result(result); err != nil {
			return err
		}
	}
}

// halted returns the error of a jq program, or nil if it has ended with halt.
func halted(err error) error {
	halt, stopped := errors.AsType[*gojq.HaltError](err)
	switch {
	case !stopped:
		return fmt.Errorf("apply the jq expression: %w", err)
	case halt.ExitCode() == 0:
		return nil
	}
	if text, ok := halt.Value().(string); ok {
		return fmt.Errorf("the jq expression ended: %s", strings.TrimSpace(text))
	}
	return fmt.Errorf("the jq expression ended: %w", err)
}

func (p *Printer) result(value any) error {
	if text, ok := value.(string); ok && !p.encoded() {
		return p.emit(text + "\n")
	}
	raw, err := gojq.Marshal(value)
	if err != nil {
		return fmt.Errorf("print a result of the jq expression: %w", err)
	}
	if p.Format == YAML || p.Format == JSON {
		return p.encode(raw)
	}
	var b bytes.Buffer
	if err := writeCompact(&b, raw); err != nil {
		return err
	}
	return p.emit(b.String())
}

// encoded reports whether texts are printed as JSON or YAML too.
func (p *Printer) encoded() bool { return p.Format == YAML }
