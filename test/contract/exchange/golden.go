// Package exchange reads and plays golden contract tests: files of requests and of what is answered to them, told
// apart from any particular product. A request is sent byte by byte as it is written; an answer is compared as
// parsed JSON, by value and kind, member for member, and every difference is told with its path.
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

// Golden is one file.
type Golden struct {
	// Name is the path below the folder of all goldens, without its ending: auth/login.
	Name  string
	About string
	// Routes are those that it covers, as gen/route names them: POST /api/jobs.
	Routes []string
	Rules  []string
	// World are pieces of the world that it needs besides those whose variables it names.
	World []string
	// Shape is the only one in which it has a meaning; empty for both.
	Shape string
	// Each selects the routes for each of which it is played; empty where it is played once.
	Each string
	// Alone says that it changes what all others see, so that nothing is played beside it.
	Alone bool
	Steps []Step

	files map[string][]byte
}

// Step is a request and its answer.
type Step struct {
	Request  Request
	Response Response
	// Until asks again until the answer is the expected one.
	Until bool
	// Covers says that this step's status counts, beside the last one's.
	Covers bool
	// Once is played before all routes, and Finally after them, where a golden is played for each of several.
	Once, Finally bool
	// Times is how often it is sent; each answer must be the expected one.
	Times int
}

// Load reads all goldens below a folder.
func Load(dir string) ([]*Golden, error) {
	var all []*Golden
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txtar" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read a golden: %w", err)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return fmt.Errorf("name a golden: %w", err)
		}
		g, err := Parse(strings.TrimSuffix(filepath.ToSlash(rel), ".txtar"), raw)
		all = append(all, g)
		return err
	})
	return all, err
}

// Parse reads one golden.
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

// comment reads the words at the top and the keys among them.
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
			g.World = append(g.World, strings.Fields(value)...)
		case key == "shape":
			g.Shape = value
		case key == "routes":
			g.Each = value
		case key == "alone" && value == "yes":
			g.Alone = true
		default:
			return fmt.Errorf("the comment's key %q is not known", key)
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
			default:
				return fmt.Errorf("the word %q is not known", w)
			}
		}
		err := step.request(string(data))
		g.Steps = append(g.Steps, step)
		return err
	case name == "response":
		if len(g.Steps) == 0 || g.Steps[len(g.Steps)-1].Response.Status != 0 {
			return errors.New("there is no request before it")
		}
		return g.Steps[len(g.Steps)-1].response(string(data))
	default:
		g.files[name] = data
		return nil
	}
}

// complete says what a golden lacks.
func (g *Golden) complete() error {
	var faults []error
	if g.About == "" {
		faults = append(faults, errors.New("it does not say what it holds"))
	}
	if len(g.Steps) == 0 {
		faults = append(faults, errors.New("it has no request"))
	}
	if g.Shape != "" && !slices.Contains([]string{"single", "split"}, g.Shape) {
		faults = append(faults, fmt.Errorf("the shape %q is not known", g.Shape))
	}
	for i, s := range g.Steps {
		if s.Response.Status == 0 {
			faults = append(faults, fmt.Errorf("request %d has no response", i+1))
		}
		if g.Each == "" && (s.Once || s.Finally) {
			faults = append(faults, fmt.Errorf("request %d is for before or after many routes, and there is one", i+1))
		}
		if s.Until && s.Times > 1 {
			faults = append(faults, fmt.Errorf("request %d is sent until and several times", i+1))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("%s: %w", g.Name, err)
	}
	return nil
}

// Parts are what is played before all routes, for each, and after all of them.
func (g *Golden) Parts() (once, each, finally *Golden) {
	part := func(takes func(Step) bool) *Golden {
		out := *g
		out.Steps = slices.DeleteFunc(slices.Clone(g.Steps), func(s Step) bool { return !takes(s) })
		return &out
	}
	return part(func(s Step) bool { return s.Once }), part(func(s Step) bool { return !s.Once && !s.Finally }), part(func(s Step) bool { return s.Finally })
}

// counts tells whether a step's status counts for the routes.
func (g *Golden) counts(i int) bool { return i == len(g.Steps)-1 || g.Steps[i].Covers }

func (s *Step) request(text string) error {
	first, rest, _ := strings.Cut(text, "\n")
	s.Request.Method, s.Request.Target, _ = strings.Cut(strings.TrimSpace(first), " ")
	if s.Request.Target == "" {
		return fmt.Errorf("%q is no request line", first)
	}
	var err error
	s.Request.Header, s.Request.Body, err = message(rest, s.directive)
	return err
}

// directive is a line of the request's head that says how it is sent.
func (s *Step) directive(name, value string) error {
	switch name {
	case "@body":
		s.Request.Made = strings.Fields(value)
	case "@length":
		s.Request.Length = value
	case "@times":
		n, err := strconv.Atoi(value)
		if err != nil || n < 2 {
			return fmt.Errorf("%q is no number of times", value)
		}
		s.Times = n
	default:
		return fmt.Errorf("the directive %s is not known", name)
	}
	return nil
}

func (s *Step) response(text string) error {
	first, rest, _ := strings.Cut(text, "\n")
	status, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || status < 100 || status > 599 {
		return fmt.Errorf("%q is no status", first)
	}
	s.Response.Status = status
	s.Response.Header, s.Response.Body, err = message(rest, func(name, _ string) error {
		return fmt.Errorf("a response has no %s", name)
	})
	return err
}

// message reads header fields up to an empty line, and the body behind it without its last line ends.
func message(text string, directive func(name, value string) error) (header []Field, body string, err error) {
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if line == "" {
			return header, strings.TrimRight(text, "\n"), nil
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, "", fmt.Errorf("%q is no header field", line)
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
