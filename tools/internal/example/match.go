package example

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// matcher returns the parts of a matcher, such as `<<null or id job as mine>>`: its kind, its argument and the name of
// the variable that it sets. The result is nil for other text.
func matcher(text string) []string {
	if !strings.HasPrefix(text, "<<") || !strings.HasSuffix(text, ">>") {
		return nil
	}
	found := regexp.MustCompile(`^(?s)<<(?:null or )?([A-Za-z]+)(?: (.*?))??(?: as ([a-z][a-z0-9_]*))?>>$`).FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	return found[1:]
}

// match returns a value that a matcher accepts, and sets the matcher's variable.
func (r *resolver) match(found []string, node map[string]any, name string) any {
	kind, arg, as := found[0], found[1], found[2]
	var out any
	switch kind {
	case "any":
		r.open = true
		out = r.doc.fill(node, name, 0)
	case "time":
		out = moment(name)
	case "digest":
		out = "sha256:" + digits
	case "id":
		out = id(arg)
	case "like", "LIKE":
		out = sample(arg)
	default:
		out = scalar(r.doc.at(node), name, kind)
	}
	if as == "" {
		return out
	}
	r.captured[as] = fmt.Sprint(out)
	if re, err := regexp.Compile(`^(?s:` + arg + `)$`); err == nil && strings.EqualFold(kind, "like") {
		if groups := re.FindStringSubmatch(r.captured[as]); len(groups) > 1 {
			r.captured[as] = groups[1]
		}
	}
	return out
}

func sorted(v map[string]any) []string { return slices.Sorted(maps.Keys(v)) }
