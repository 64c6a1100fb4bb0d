package recipe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The limits of what projects publish.
const (
	maxVersions   = 1000 // of one recipe
	maxPackage    = 64 << 20
	maxManifest   = 64 << 10
	maxTitle      = 200  // characters
	maxText       = 1000 // characters of a description
	maxName       = 64   // characters of a name
	maxArguments  = 64
	maxArgument   = 1024 // bytes
	maxInputs     = 32
	maxOutputs    = 32
	maxMetrics    = 200
	maxParameters = 200
)

// dialect is the dialect of job specifications that recipes are written for.
const dialect = "service/v1"

// manifestName is the path of the manifest in a package.
const manifestName = "recipe.json"

// refuse returns the error for a package that cannot be published.
func refuse(format string, args ...any) error {
	return fault.New(fault.Refused, "recipe_invalid", format, args...)
}

// readStrict parses the manifest of a package. Unlike read, it refuses members that do not exist.
func readStrict(text []byte) (Manifest, error) {
	var m Manifest
	err := decodeMembers("", text, &m)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return m, refuse("%s, line %d: %s", manifestName, 1+bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n")), err)
	}
	if err != nil {
		return m, refuse("%s: %s", manifestName, err)
	}
	return m, nil
}

// checkPublished returns an error if a project with the given key cannot publish the manifest. A manifest is the text of
// a user, which every service reads that handles jobs of the recipe.
func (m *Manifest) checkPublished(project string) error {
	for _, check := range []func() error{
		func() error { return m.checkIdentity(project) }, m.checkFramework, m.checkEntrypoint, m.checkRequirements, m.checkHint,
		m.checkInputs, m.checkOutputs, m.checkMetrics, m.check, func() error { return checkParams(m.ParamsSchema) },
	} {
		err := check()
		if err == nil {
			continue
		}
		if _, known := errors.AsType[*fault.Error](err); known {
			return err
		}
		return refuse("%s: %s", manifestName, err)
	}
	return nil
}

func (m *Manifest) checkIdentity(project string) error {
	namespace, short, _ := strings.Cut(m.Name, "/")
	switch {
	case m.API != dialect:
		return fmt.Errorf("api is %q; write %q", m.API, dialect)
	case namespace != project:
		return fmt.Errorf("the name %q does not begin with the project; name the recipe %s/NAME, or publish it from the project %s",
			m.Name, project, namespace)
	case !regexp.MustCompile(`^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$`).MatchString(short):
		return fmt.Errorf("%q is not a name; after the project, a name has 1 to 64 lower-case letters, digits and any of . _ -", m.Name)
	case !regexp.MustCompile(`^(?:0|[1-9]\d{0,8})(?:\.(?:0|[1-9]\d{0,8})){0,3}$`).MatchString(m.Version):
		return fmt.Errorf("%q is not a version; write 1 to 4 numbers with dots between them, such as 1.0.2", m.Version)
	case m.Title == "":
		return errors.New("title is missing; say in a few words what the recipe does")
	case m.State != "" && m.State != StateActive:
		return fmt.Errorf("state is %q; leave it out, and change the state of the version after it is published", m.State)
	}
	return cmp.Or(checkText("title", m.Title, maxTitle), checkText("description", m.Description, maxText))
}

// checkText returns an error if a text has more than the given number of characters, or one that controls a terminal or
// the direction of text. The text may have several lines.
func checkText(name, text string, most int) error {
	if problem := textProblem(text, most); problem != "" {
		return errors.New(name + " " + problem)
	}
	return nil
}

// textProblem states why checkText refuses a text, or returns "".
func textProblem(text string, most int) string {
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Sprintf("has %d characters; write at most %d", n, most)
	}
	for _, c := range text {
		if c == utf8.RuneError || unicode.In(c, unicode.Cc, unicode.Cf) && c != '\n' && c != '\t' {
			return fmt.Sprintf("has the character %U, which is not printed; remove it", c)
		}
	}
	return ""
}

func (m *Manifest) checkFramework() error {
	f := m.Framework
	switch {
	case f.Name == "" || f.RuntimeID == "":
		return errors.New("framework needs name and runtime_id; change runtime_id when jobs must not run with the old environment any more")
	case f.Image != "":
		return errors.New("recipes in a container image do not exist yet; remove framework.image")
	}
	return cmp.Or(checkText("framework.name", f.Name, maxName), checkText("framework.runtime_id", f.RuntimeID, maxName),
		checkText("framework.python", f.Python, maxName))
}

func (m *Manifest) checkEntrypoint() error {
	if len(m.Entrypoint) == 0 || m.Entrypoint[0] == "" {
		return errors.New(`entrypoint is missing; write the command, such as ["python", "train.py"]`)
	}
	if len(m.Entrypoint) > maxArguments {
		return fmt.Errorf("entrypoint has %d words; write at most %d", len(m.Entrypoint), maxArguments)
	}
	for i, argument := range m.Entrypoint {
		if len(argument) > maxArgument {
			return fmt.Errorf("entrypoint[%d] has %d bytes; write at most %d", i, len(argument), maxArgument)
		}
		if err := checkText(fmt.Sprintf("entrypoint[%d]", i), argument, maxArgument); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manifest) checkRequirements() error {
	if m.Requirements != "" && (!fs.ValidPath(m.Requirements) || m.Requirements == "." || len(m.Requirements) > 512) {
		return fmt.Errorf("requirements is %q; write the path of a lock in the recipe's folder", m.Requirements)
	}
	return nil
}

// hint holds the members of resources_hint.
type hint struct {
	GPUs      *float64 `json:"gpus"`
	MinVRAMGB *float64 `json:"min_vram_gb"`
	CPU       *float64 `json:"cpu"`
	MemoryGB  *float64 `json:"memory_gb"`
	DiskGB    *float64 `json:"disk_gb"`
	Pools     *float64 `json:"pools"`
	Seconds   *float64 `json:"seconds"`
	MultiNode *bool    `json:"multi_node"`
}

func (m *Manifest) checkHint() error {
	var h hint
	if err := decodeMember("resources_hint", m.ResourcesHint, &h); err != nil {
		return err
	}
	for name, value := range map[string]*float64{
		"gpus": h.GPUs, "min_vram_gb": h.MinVRAMGB, "cpu": h.CPU, "memory_gb": h.MemoryGB, "disk_gb": h.DiskGB, "pools": h.Pools, "seconds": h.Seconds,
	} {
		if value != nil && (*value < 0 || *value > 1e9) {
			return fmt.Errorf("resources_hint.%s is %v; write a number from 0 to 1e9", name, *value)
		}
	}
	return nil
}

// decodeMember decodes a member of the manifest, which may be missing.
func decodeMember(name string, raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	return decodeMembers(name, raw, into)
}
