package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/tools/internal/surface"
)

// names determines the names of the document's schemas. A schema has the name of its message. If two services have a
// message of that name, the schema's name begins with the service. If the schema of a request differs from that of a
// response, the name of the request's schema ends with Input.
type names struct {
	uses   map[protoreflect.FullName][2]bool
	short  map[string][]protoreflect.MessageDescriptor
	double map[protoreflect.FullName]bool
}

// of returns the name of md's schema.
func (n *names) of(md protoreflect.MessageDescriptor, w way) string {
	name := n.base(md)
	if w == sent && n.double[md.FullName()] {
		return name + "Input"
	}
	return name
}

func (n *names) base(md protoreflect.MessageDescriptor) string {
	name := shortName(md)
	if len(n.short[name]) > 1 {
		service := surface.ServiceOf(md)
		return strings.ToUpper(service[:1]) + service[1:] + name
	}
	return name
}

// shortName returns the name of a message without its package, such as Job, or Job_Part for a nested message.
func shortName(md protoreflect.MessageDescriptor) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(md.FullName()), string(md.ParentFile().Package())+"."), ".", "_")
}

// use records md and all messages in it.
func (n *names) use(md protoreflect.MessageDescriptor, w way) {
	name := md.FullName()
	used := n.uses[name]
	if used[w] || name == timestamp || name == empty {
		return
	}
	if !used[sent] && !used[got] {
		n.short[shortName(md)] = append(n.short[shortName(md)], md)
	}
	used[w] = true
	n.uses[name] = used
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if fd.Message() != nil {
			n.use(fd.Message(), w)
		}
	}
}

// learn finds the messages of all routes, and the messages whose request form differs from the response form.
func (g *generator) learn() error {
	g.names = &names{
		uses: map[protoreflect.FullName][2]bool{}, short: map[string][]protoreflect.MessageDescriptor{}, double: map[protoreflect.FullName]bool{},
	}
	for _, r := range g.surface.Routes {
		if r.Descriptor == nil {
			continue
		}
		for _, md := range g.responseMessages(r) {
			g.names.use(md, got)
		}
		for _, md := range g.requestMessages(r) {
			g.names.use(md, sent)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, md := range g.messages() {
			used := g.names.uses[md.FullName()]
			if !used[sent] || !used[got] || g.names.double[md.FullName()] {
				continue
			}
			same, err := g.alike(md)
			if err != nil {
				return err
			}
			if !same {
				g.names.double[md.FullName()] = true
				changed = true
			}
		}
	}
	return nil
}

// messages returns every message of the document, sorted by the name of its schema.
func (g *generator) messages() []protoreflect.MessageDescriptor {
	var all []protoreflect.MessageDescriptor
	for _, list := range g.names.short {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b protoreflect.MessageDescriptor) int {
		return strings.Compare(g.names.base(a), g.names.base(b))
	})
	return all
}

// closed reports whether the schema of md allows no other properties, even in responses. This is the case if requests
// and responses use the same schema of md, because requests allow no other properties.
func (g *generator) closed(md protoreflect.MessageDescriptor) bool {
	used := g.names.uses[md.FullName()]
	return used[sent] && used[got] && !g.names.double[md.FullName()]
}

// alike reports whether md has the same schema in requests and in responses, given what learn has found so far about
// the messages in md. It ignores the bounds that follow from an integer's size alone, which only requests have.
func (g *generator) alike(md protoreflect.MessageDescriptor) (bool, error) {
	var texts [2]string
	for w := range texts {
		schema, err := g.message(md, way(w), nil)
		if err != nil {
			return false, err
		}
		if texts[w], err = canonical(schema); err != nil {
			return false, err
		}
	}
	return texts[sent] == texts[got], nil
}

func canonical(schema *object) (string, error) {
	c := schema.copy()
	c.drop("additionalProperties")
	properties := c.in("properties")
	for _, name := range properties.names {
		p, _ := properties.members[name].(*object)
		if p.get("type") != "integer" {
			continue
		}
		for _, bound := range []string{"minimum", "maximum"} {
			if limits := integerBounds(p); slices.Contains(limits, p.get(bound)) {
				p.drop(bound)
			}
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write schema: %w", err)
	}
	return string(text), nil
}

// integerBounds returns the bounds that follow from an integer's size alone.
func integerBounds(p *object) []any {
	kind := protoreflect.Int64Kind
	if p.get("format") == "int32" {
		kind = protoreflect.Int32Kind
	}
	whole := integerOf(kind, sent)
	return []any{whole.get("minimum"), whole.get("maximum")}
}
