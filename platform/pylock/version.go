package pylock

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// version is a parsed version of a Python package or interpreter, see PEP 440.
type version struct {
	epoch   int
	release []int
	// pre is the phase of a pre-release, -1 for a, 0 for b and 1 for rc, with its number. Without a pre-release, hasPre
	// is false. post and dev are -1 if the version has no such part.
	hasPre      bool
	pre, preNum int
	post, dev   int
	local       string
}

const maxNumber = 1 << 40 // of a part of a version; dates with times are below it

// pattern returns the form of a version. The parts are the epoch, the release, the pre-release's phase and number, the
// post-release's numbers in two spellings, the development release and the local part.
func pattern() *regexp.Regexp {
	return regexp.MustCompile(`^v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?([0-9]+)?)?` +
		`(?:-([0-9]+)|([-_.]?(?:post|rev|r)[-_.]?)([0-9]+)?)?(?:([-_.]?dev[-_.]?)([0-9]+)?)?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$`)
}

// parseVersion returns a version. ok is false if the text is not a valid version.
func parseVersion(form *regexp.Regexp, text string) (v version, ok bool) {
	parts := form.FindStringSubmatch(strings.ToLower(text))
	if parts == nil || len(text) > maxName {
		return v, false
	}
	good := true
	number := func(s string) int {
		if s == "" {
			return 0
		}
		n, err := strconv.Atoi(s)
		good = good && err == nil && n < maxNumber
		return n
	}
	v = version{epoch: number(parts[1]), post: -1, dev: -1, local: parts[10]}
	for part := range strings.SplitSeq(parts[2], ".") {
		v.release = append(v.release, number(part))
	}
	if phase := parts[3]; phase != "" {
		v.hasPre, v.preNum = true, number(parts[4])
		switch phase[0] {
		case 'a':
			v.pre = -1
		case 'b':
		default:
			v.pre = 1
		}
	}
	switch {
	case parts[5] != "":
		v.post = number(parts[5])
	case parts[6] != "":
		v.post = number(parts[7])
	}
	if parts[8] != "" {
		v.dev = number(parts[9])
	}
	return v, good
}

// at returns a part of the release; missing parts are 0.
func (v version) at(i int) int {
	if i < len(v.release) {
		return v.release[i]
	}
	return 0
}

// prefix reports whether the release of v begins with that of p, as in `==3.12.*`.
func (v version) prefix(p version) bool {
	if v.epoch != p.epoch {
		return false
	}
	for i := range p.release {
		if v.at(i) != p.release[i] {
			return false
		}
	}
	return true
}

// public compares two versions without their local parts.
func (v version) public(o version) int {
	if c := cmp.Compare(v.epoch, o.epoch); c != 0 {
		return c
	}
	for i := range max(len(v.release), len(o.release)) {
		if c := cmp.Compare(v.at(i), o.at(i)); c != 0 {
			return c
		}
	}
	return slices.Compare(v.suffix(), o.suffix())
}

// suffix returns the parts after the release in a form that sorts as PEP 440 requires.
func (v version) suffix() []int {
	const first, last = -2, maxNumber
	phase, number := last, 0
	switch {
	case v.hasPre:
		phase, number = v.pre, v.preNum
	case v.post < 0 && v.dev >= 0:
		phase = first
	}
	dev := last
	if v.dev >= 0 {
		dev = v.dev
	}
	return []int{phase, number, v.post, dev}
}

// unstable reports whether v is a pre-release or a development release.
func (v version) unstable() bool { return v.hasPre || v.dev >= 0 }

// matches reports whether v satisfies the comparison with the version o. If wild is true, o stands for all versions with
// its release as prefix; only == and != permit that.
func (v version) matches(op string, o version, wild bool) bool {
	switch op {
	case "==", "===":
		if wild {
			return v.prefix(o)
		}
		return v.public(o) == 0 && (o.local == "" || v.local == o.local)
	case "!=":
		return !v.matches("==", o, wild)
	case "<=":
		return v.public(o) <= 0
	case ">=":
		return v.public(o) >= 0
	case "<":
		return v.public(o) < 0 && (o.unstable() || !v.unstable() || !v.prefix(o))
	case ">":
		return v.public(o) > 0 && (o.post >= 0 || v.post < 0 || !v.prefix(o))
	case "~=":
		base := o
		base.release = o.release[:len(o.release)-1]
		return v.public(o) >= 0 && v.prefix(base)
	}
	return false
}

// comparand returns the version with which the operator compares, and whether the text ends with `.*`. ok is false if the
// operator cannot compare with the text.
func comparand(form *regexp.Regexp, op, text string) (v version, wild, ok bool) {
	if cut, found := strings.CutSuffix(text, ".*"); found && (op == "==" || op == "!=") {
		v, ok = parseVersion(form, cut)
		return v, true, ok && !v.unstable() && v.post < 0 && v.local == ""
	}
	v, ok = parseVersion(form, text)
	return v, false, ok && (op != "~=" || len(v.release) > 1)
}

// specifier is a condition on a version, such as `>=3.11`.
type specifier struct {
	op   string
	with version
	wild bool
}

// parseSpecifiers parses a comma-separated list of conditions.
func parseSpecifiers(text string) (list []specifier, ok bool) {
	form := pattern()
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		n := strings.IndexFunc(part, func(r rune) bool { return !strings.ContainsRune("=<>!~", r) })
		if n < 1 || !slices.Contains([]string{"==", "!=", "<=", ">=", "<", ">", "~="}, part[:n]) {
			return nil, false
		}
		with, wild, ok := comparand(form, part[:n], strings.TrimSpace(part[n:]))
		if !ok {
			return nil, false
		}
		list = append(list, specifier{part[:n], with, wild})
	}
	return list, true
}
