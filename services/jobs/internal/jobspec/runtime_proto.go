package jobspec

import (
	"io/fs"
	"regexp"
	"strings"
	"unicode"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func runtimeFromProto(m *jobsv1.Runtime) *Runtime {
	if m == nil {
		return nil
	}
	r := &Runtime{Node: m.GetNode(), Requirements: m.GetRequirements()}
	if m.GetImage() != nil {
		r.Image = &Image{Ref: m.GetImage().GetRef()}
	}
	return r
}

// nodeName is the form of the names of interpreters that nodes offer.
const nodeName = `^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$`

// checkRuntime rejects a runtime that is not exactly one environment, and a lock that is not a file of the package.
func checkRuntime(s *Spec) error {
	r := s.Runtime
	if r == nil {
		return nil
	}
	chosen := 0
	for _, set := range []bool{r.Node != "", r.Requirements != "", r.Image != nil} {
		if set {
			chosen++
		}
	}
	invalid := func(msg string, loc ...any) error {
		return fault.InvalidFields(fault.Field{Loc: append([]any{"spec"}, loc...), Type: fault.TypeValue, Msg: "Value error, " + msg})
	}
	switch {
	case chosen != 1:
		return invalid("set exactly one of node, requirements and image", "runtime")
	case s.Image != nil:
		return invalid("image and runtime exclude each other; remove one of them", "runtime")
	case r.Node != "" && !regexp.MustCompile(nodeName).MatchString(r.Node):
		return invalid("the name of an interpreter has 1 to 64 lower-case letters, digits and any of . _ -", "runtime", "node")
	case r.Requirements == "":
		return nil
	case !fs.ValidPath(r.Requirements) || r.Requirements == "." || strings.ContainsFunc(r.Requirements, unicode.IsControl):
		return invalid("the lock is a file of the package; give its path relative to the package's folder, without . and ..", "runtime", "requirements")
	case s.Source.Package == "":
		return invalid("the lock is a file of the package; set source.package", "runtime", "requirements")
	}
	return nil
}
