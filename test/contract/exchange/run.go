package exchange

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Response is the expected response.
type Response struct {
	Status int
	Header []Field
	Body   string
}

// Document is the description of the API.
type Document interface {
	// CheckResponse returns an error if the response differs from the description of its route. It returns nil for
	// routes that are not described.
	CheckResponse(method, target string, status int, header http.Header, body []byte) error
}

// Target is the installation and the client settings with which a golden runs.
type Target struct {
	URL string
	// From is the client's IP address. Each golden has its own address, because rate limits count requests by
	// address.
	From string
	// Timeout limits the time of one request, and of one step with Until.
	Timeout time.Duration
	// Variable returns the value of a variable that belongs to the installation.
	Variable func(name string) (string, error)
	// Vars holds the golden's initial variables. If it is not nil, Run adds the captured variables to it.
	Vars     map[string]string
	Document Document
	// Draft receives a draft of the expected body if that body is a question mark. If Draft is nil, such a step
	// fails.
	Draft func(step int, body string)
}

// runner runs one golden once.
type runner struct {
	*Golden

	target Target
	vars   map[string]string
	// last, if not nil, is called with the next response.
	last func(Received)
}

// unwritten is the placeholder for an expected body that Draft fills in.
const unwritten = "?"

// Run sends the requests in order. It returns an error for the first unexpected response.
func (g *Golden) Run(ctx context.Context, s Target) error {
	p := &runner{Golden: g, target: s, vars: map[string]string{"base_url": s.URL, "address": s.From, "unique": word(5), "random": word(16)}}
	maps.Copy(p.vars, s.Vars)
	defer func() {
		if s.Vars != nil {
			maps.Copy(s.Vars, p.vars)
		}
	}()
	for i, step := range g.Steps {
		play := p.times
		if step.Until {
			play = p.until
		}
		if step.Response.Body == unwritten && s.Draft != nil {
			step.Response.Body = "<<any>>"
			p.last = func(a Received) { s.Draft(i, p.draft(a.Body)) }
		}
		if err := play(ctx, step); err != nil {
			return fmt.Errorf("%s, request %d (%s %s): %w", g.Name, i+1, step.Request.Method, step.Request.Target, err)
		}
	}
	return nil
}

// word returns a random word of letters and digits that begins with a letter.
func word(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails
	return "u" + hex.EncodeToString(raw)
}

func (p *runner) times(ctx context.Context, s Step) error {
	for range s.Times {
		if err := p.once(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// until repeats a step with growing pauses until the response is the expected one.
func (p *runner) until(ctx context.Context, s Step) error {
	ctx, cancel := context.WithTimeout(ctx, p.target.Timeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := p.once(ctx, s)
		if err == nil {
			return nil
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return fmt.Errorf("no expected response within %s: %w", p.target.Timeout, err)
		}
	}
}

// once sends a request and compares the response.
func (p *runner) once(ctx context.Context, s Step) error {
	w, err := p.rawRequest(s.Request)
	if err != nil {
		return err
	}
	want, err := p.fill(s.Response.Body)
	if err != nil {
		return err
	}
	a, err := w.send(ctx, p.target, func(text []byte) bool { return textFault(want, string(text), nil) == "" })
	if err != nil {
		return err
	}
	captured := map[string]string{}
	faults := p.compare(s.Response, want, w.method, a, func(name, value string) { captured[name] = value })
	if len(faults) > 0 {
		return fmt.Errorf("unexpected response:\n%s\ncomplete response: %d %v\n%s", faultLines(faults), a.Status, a.Header, clip(a.Body))
	}
	if p.last != nil {
		p.last(a)
		p.last = nil
	}
	maps.Copy(p.vars, captured)
	if p.target.Document != nil {
		if err := p.target.Document.CheckResponse(w.method, w.target, a.Status, a.Header, a.Body); err != nil {
			return fmt.Errorf("the response differs from the API description: %w\ncomplete response: %d %v\n%s", err, a.Status, a.Header, clip(a.Body))
		}
	}
	return nil
}

func clip(body []byte) string {
	const most = 4000
	if len(body) > most {
		return string(body[:most]) + "…"
	}
	return string(body)
}

var variable = regexp.MustCompile(`\{\{([a-z][a-z0-9_]*)\}\}`)

// Names returns the variables that the golden uses, without duplicates.
func (g *Golden) Names() []string {
	var texts []string
	for _, s := range g.Steps {
		texts = append(texts, s.Request.Target, s.Request.Method, s.Request.Body, s.Response.Body)
		for _, f := range append(s.Request.Header, s.Response.Header...) {
			texts = append(texts, f.Value)
		}
	}
	seen := map[string]bool{}
	var names []string
	for _, found := range variable.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		if !seen[found[1]] {
			seen[found[1]] = true
			names = append(names, found[1])
		}
	}
	return names
}

// fill replaces the variables in the given text by their values.
func (p *runner) fill(text string) (string, error) {
	var faults []error
	out := variable.ReplaceAllStringFunc(text, func(sign string) string {
		name := sign[2 : len(sign)-2]
		if v, ok := p.vars[name]; ok {
			return v
		}
		if p.target.Variable == nil {
			faults = append(faults, fmt.Errorf("unknown variable %s", sign))
			return sign
		}
		v, err := p.target.Variable(name)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", sign, err))
			return sign
		}
		p.vars[name] = v
		return v
	})
	return out, errors.Join(faults...)
}

func (p *runner) rawRequest(r Request) (rawRequest, error) {
	var faults []error
	fill := func(text string) string {
		out, err := p.fill(text)
		faults = append(faults, err)
		return out
	}
	w := rawRequest{method: fill(r.Method), target: fill(r.Target), length: r.Length, body: []byte(fill(r.Body))}
	for _, f := range r.Header {
		w.header = append(w.header, Field{f.Name, fill(f.Value)})
	}
	if r.Made != nil {
		body, err := p.made(r.Made, p.fill)
		faults = append(faults, err)
		w.body = body
	}
	return w, errors.Join(faults...)
}
