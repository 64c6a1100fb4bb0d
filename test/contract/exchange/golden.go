// Package exchange reads and runs goldens: files of requests and expected responses. It does not depend on
// a particular product. It sends each request exactly as it is written. It compares each response as parsed
// JSON, by value and type, and reports every difference with its path.
package exchange

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Golden is one file of requests and expected responses.
type Golden struct {
	// Name is the path without extension, relative to the folder of all goldens, for example auth/login.
	Name  string
	About string
	// Routes lists the routes that the golden covers, as in gen/route, for example POST /api/jobs.
	Routes []string
	Rules  []string
	// Needs lists further variables, from the header `world`. Their objects must exist before the golden runs.
	Needs []string
	// Kind is the kind of installation on which the golden runs: single or split. The header `shape` sets it. Kind is
	// empty if the golden runs on both.
	Kind string
	// Each selects the routes for which the golden runs; empty if the golden runs only once.
	Each string
	// Alone marks a golden that changes objects that other goldens use. No other golden may run at the same
	// time.
	Alone bool
	Steps []Step

	files map[string][]byte
}

// Step is a request and its expected response.
type Step struct {
	Request  Request
	Response Response
	// Until marks a request that is repeated until its response is the expected one.
	Until bool
	// Covers marks a step whose status counts as covered. The status of the last step always counts.
	Covers bool
	// Once marks a step that runs before all routes, and Finally one that runs after all routes, if Each is
	// set.
	Once, Finally bool
	// Times is the number of times that the request is sent. Each response must be the expected one.
	Times int
}

// Load reads all goldens in a folder and its subfolders.
func Load(dir string) ([]*Golden, error) {
	var all []*Golden
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txtar" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read golden: %w", err)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return fmt.Errorf("derive the name of the golden: %w", err)
		}
		g, err := Parse(strings.TrimSuffix(filepath.ToSlash(rel), ".txtar"), raw)
		all = append(all, g)
		return err
	})
	return all, err
}

// Parse parses the text of a golden.
func Parse(name string, raw []byte) (*Golden, error) {
	archive := txtar.Parse(raw)
	g := &Golden{Name: name, files: map[string][]byte{}}
	if err := g.comment(string(archive.Comment)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, f := range archive.Files {
		if err := g.section(f.Name, f.Data); err != nil {
			return nil, fmt.Errorf("%s: section %s: %w", name, f.Name, err)
		}
	}
	return g, g.complete()
}

// comment parses the archive's comment: the description and the `key: value` lines.
func (g *Golden) comment(text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case !found || strings.Contains(key, " ") || key != strings.ToLower(key):
			g.About = strings.TrimSpace(g.About + " " + line)
		case key == "route":
			g.Routes = append(g.Routes, strings.Join(strings.Fields(value), " "))
		case key == "rules":
			g.Rules = append(g.Rules, strings.Fields(value)...)
		case key == "world":
			g.Needs = append(g.Needs, strings.Fields(value)...)
		case key == "shape":
			g.Kind = value
		case key == "routes":
			g.Each = value
		case key == "alone" && value == "yes":
			g.Alone = true
		default:
			return fmt.Errorf("unknown key %q in the comment", key)
		}
	}
	return nil
}

func (g *Golden) section(name string, data []byte) error {
	words := strings.Fields(name)
	switch {
	case len(words) > 0 && words[0] == "request":
		step := Step{Times: 1}
		for _, w := range words[1:] {
			switch w {
			case "until":
				step.Until = true
			case "covers":
				step.Covers = true
			case "once":
				step.Once = true
			case "finally":
				step.Finally = true
			case "example":
				// The generator of the OpenAPI document uses this exchange as the example of its operation.
			default:
				return fmt.Errorf("unknown word %q after request", w)
			}
		}
		err := step.request(string(data))
		g.Steps = append(g.Steps, step)
		return err
	case name == "response":
		if len(g.Steps) == 0 || g.Steps[len(g.Steps)-1].Response.Status != 0 {
			return errors.New("a response must follow its request")
		}
		return g.Steps[len(g.Steps)-1].response(string(data))
	default:
		g.files[name] = data
		return nil
	}
}

// complete returns an error if a part of the golden is missing or contradicts another part.
func (g *Golden) complete() error {
	var faults []error
	if g.About == "" {
		faults = append(faults, errors.New("the description is missing"))
	}
	if len(g.Steps) == 0 {
		faults = append(faults, errors.New("the golden has no request"))
	}
	if g.Kind != "" && !slices.Contains([]string{"single", "split"}, g.Kind) {
		faults = append(faults, fmt.Errorf("unknown shape %q; it must be single or split", g.Kind))
	}
	for i, s := range g.Steps {
		if s.Response.Status == 0 {
			faults = append(faults, fmt.Errorf("request %d has no response", i+1))
		}
		if g.Each == "" && (s.Once || s.Finally) {
			faults = append(faults, fmt.Errorf("request %d: once and finally are allowed only if the golden has the key routes", i+1))
		}
		if s.Until && s.Times > 1 {
			faults = append(faults, fmt.Errorf("request %d: until and @times cannot be combined", i+1))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("%s: %w", g.Name, err)
	}
	return nil
}

// Parts splits the golden into the steps that run before all routes, for each route, and after all routes.
func (g *Golden) Parts() (once, each, finally *Golden) {
	part := func(include func(Step) bool) *Golden {
		out := *g
		out.Steps = slices.DeleteFunc(slices.Clone(g.Steps), func(s Step) bool { return !include(s) })
		return &out
	}
	return part(func(s Step) bool { return s.Once }), part(func(s Step) bool { return !s.Once && !s.Finally }), part(func(s Step) bool { return s.Finally })
}

// counts reports whether a step's status counts as covered.
func (g *Golden) counts(i int) bool { return i == len(g.Steps)-1 || g.Steps[i].Covers }

func (s *Step) request(text string) error {
	first, rest, _ := strings.Cut(text, "\n")
	s.Request.Method, s.Request.Target, _ = strings.Cut(strings.TrimSpace(first), " ")
	if s.Request.Target == "" {
		return fmt.Errorf("%q is not a valid request line", first)
	}
	var err error
	s.Request.Header, s.Request.Body, err = message(rest, s.directive)
	return err
}

// directive parses a header line that begins with @ and controls how the request is sent.
func (s *Step) directive(name, value string) error {
	switch name {
	case "@body":
		s.Request.Made = strings.Fields(value)
	case "@length":
		s.Request.Length = value
	case "@times":
		n, err := strconv.Atoi(value)
		if err != nil || n < 2 {
			return fmt.Errorf("%q is not a valid number of times", value)
		}
		s.Times = n
	default:
		return fmt.Errorf("unknown directive %s", name)
	}
	return nil
}

func (s *Step) response(text string) error {
	first, rest, _ := strings.Cut(text, "\n")
	status, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || status < 100 || status > 599 {
		return fmt.Errorf("%q is not a valid status", first)
	}
	s.Response.Status = status
	s.Response.Header, s.Response.Body, err = message(rest, func(name, _ string) error {
		return fmt.Errorf("%s is not allowed in a response", name)
	})
	return err
}

// message parses header fields up to an empty line. The text after that line, without trailing newlines, is
// the body.
func message(text string, directive func(name, value string) error) (header []Field, body string, err error) {
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if line == "" {
			return header, strings.TrimRight(text, "\n"), nil
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, "", fmt.Errorf("%q is not a valid header field", line)
		}
		value = strings.TrimSpace(value)
		if !strings.HasPrefix(name, "@") {
			header = append(header, Field{name, value})
		} else if err := directive(name, value); err != nil {
			return nil, "", err
		}
	}
	return header, "", nil
}
