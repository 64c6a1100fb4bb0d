package archive

import (
	"archive/tar"
	"path"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// member judges the kind, the path and the name of one member.
func (w *walk) member(h *tar.Header) error {
	folder := h.Typeflag == tar.TypeDir
	if !folder && h.Typeflag != tar.TypeReg {
		return refuse("%s is neither a file nor a folder", shown(h.Name))
	}
	if h.Mode&0o7000 != 0 {
		return refuse("%s runs with another's rights", shown(h.Name))
	}
	name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
	if folder && (name == "" || name == ".") {
		return nil // the folder itself, as tar writes it
	}
	if name == "" || !inside(name) {
		return refuse("%s is not a plain path inside the package", shown(h.Name))
	}
	if err := w.take(name, folder); err != nil {
		return err
	}
	if !folder && Sensitive(name) {
		return fault.New(fault.Refused, GateSensitive, GateSensitive+": %s may hold a secret and does not belong into a package", shown(name))
	}
	return nil
}

// inside says whether a path has one spelling, and that inside its folder.
func inside(name string) bool {
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
	return name == path.Clean(name) && !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../") &&
		!strings.ContainsFunc(name, odd) && strings.Count(name, "/") < MaxDepth && len(name) <= 1024
}

// take refuses a path that is there already, by another case too, and one that is a file and a folder.
func (w *walk) take(name string, folder bool) error {
	folded := strings.ToLower(name)
	if file, taken := w.names[folded]; taken && (file || !folder) {
		return refuse("%s is there twice", shown(name))
	}
	w.names[folded] = !folder
	for dir := path.Dir(folded); dir != "."; dir = path.Dir(dir) {
		file, taken := w.names[dir]
		if file {
			return refuse("%s is a file and a folder", shown(dir))
		}
		if taken {
			break
		}
		w.names[dir] = false
	}
	return nil
}

// Sensitive says whether a file is by its name one that holds secrets.
func Sensitive(name string) bool {
	base := strings.ToLower(path.Base(name))
	for _, pattern := range patterns() {
		if ok, _ := path.Match(pattern, base); ok {
			return !harmless(base)
		}
	}
	return false
}

// patterns are the names of the specification, and those that are their like.
func patterns() []string {
	return []string{
		".env", ".env.*", "*.pem", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.p12", "*.pfx", ".netrc", ".pypirc", ".pgpass", ".htpasswd",
	}
}

// harmless are templates without values, which packages rightly have.
func harmless(base string) bool {
	switch base {
	case ".env.example", ".env.sample", ".env.template":
		return true
	default:
		return false
	}
}

// shown is a member's name as a refusal may repeat it.
func shown(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if runes := []rune(name); len(runes) > 128 {
		return string(runes[:128]) + "…"
	}
	return name
}
