package pylock

// graph has the packages of a lock of uv and their dependencies.
type graph struct {
	file  string
	nodes []node
	root  int // the project
	named map[string][]int
	// find returns the line of a text in the package that begins in a line.
	find func(text string, line int) int
}

// node is one version of a package.
type node struct {
	line   int
	pin    Pin
	source string
	own    bool // it is the project itself, which is not installed
	edges  []edge
	extras map[string][]edge
}

// edge is a dependency on a package. The version and the source are empty if the lock has only one version of it.
type edge struct {
	line                  int // of the package that has the dependency
	name, version, source string
	extras                []string
	marker                *marker
}

// target is a package, or one of its extras, whose dependencies are needed.
type target struct {
	node  int
	extra string
}

// choose returns the packages that the project needs in an environment. The markers have been evaluated.
func (g *graph) choose(env Environment) ([]entry, error) {
	seen := map[target]bool{{node: g.root}: true}
	var chosen []entry
	for open := []target{{node: g.root}}; len(open) > 0; open = open[1:] {
		at := g.nodes[open[0].node]
		edges := at.edges
		if open[0].extra != "" {
			edges = at.extras[open[0].extra]
		}
		for _, e := range edges {
			if !e.marker.holds(env) {
				continue
			}
			to, err := g.lead(e)
			if err != nil {
				return nil, err
			}
			next := []target{{node: to}}
			for _, extra := range e.extras {
				next = append(next, target{to, extra})
			}
			for _, t := range next {
				if seen[t] {
					continue
				}
				seen[t] = true
				open = append(open, t)
				if n := g.nodes[to]; t.extra == "" && !n.own {
					if len(n.pin.Hashes) == 0 {
						return nil, &Error{
							g.file, n.line, n.pin.Name + " " + n.pin.Version + " has no wheel, only a source distribution, and the node installs only wheels",
							"depend on a version that has wheels",
						}
					}
					chosen = append(chosen, entry{line: n.line, pin: n.pin})
				}
			}
		}
	}
	return chosen, nil
}

// lead returns the package that an edge leads to.
func (g *graph) lead(e edge) (int, error) {
	found := -1
	for _, i := range g.named[e.name] {
		n := g.nodes[i]
		if e.version != "" && e.version != n.pin.Version && !n.own || e.source != "" && e.source != n.source {
			continue
		}
		if found >= 0 {
			return 0, &Error{g.file, g.find(`"`+e.name+`"`, g.find("dependencies", e.line)), "the dependency on " + e.name + " leads to more than one package", lockAgain}
		}
		found = i
	}
	if found < 0 {
		return 0, &Error{g.file, g.find(`"`+e.name+`"`, g.find("dependencies", e.line)), "the lock has no package for the dependency on " + e.name, lockAgain}
	}
	return found, nil
}
