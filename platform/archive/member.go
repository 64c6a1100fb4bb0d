package archive

import (
	"archive/tar"
	"path"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// member checks the type, the path and the name of one member.
func (w *walk) member(h *tar.Header) error {
	folder := h.Typeflag == tar.TypeDir
	if !folder && h.Typeflag != tar.TypeReg {
		return refuse("%s is neither a file nor a folder", shown(h.Name))
	}
	if h.Mode&0o7000 != 0 {
		return refuse("%s has a setuid, setgid or sticky bit", shown(h.Name))
	}
	name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
	if folder && (name == "" || name == ".") {
		return nil // tar lists the top folder itself as "./"
	}
	if name == "" || !inside(name) {
		return refuse("%s is not an accepted path: it must be relative and stay inside the package, must not contain an empty, . or .. "+
			"segment, a backslash or a control character, and must have at most %d segments of at most %d bytes each and %d bytes", shown(h.Name),
			MaxDepth, maxName, maxPath)
	}
	if err := w.take(name, folder); err != nil {
		return err
	}
	if !folder && Sensitive(name) != "" {
		return fault.New(fault.Refused, GateSensitive, GateSensitive+": %s may hold a secret; remove it from the package", shown(name))
	}
	return nil
}

// inside reports whether name is a clean relative path that stays inside its folder.
func inside(name string) bool {
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
	for segment := range strings.SplitSeq(name, "/") {
		if len(segment) > maxName {
			return false
		}
	}
	return name == path.Clean(name) && !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../") &&
		!strings.ContainsFunc(name, odd) && strings.Count(name, "/") < MaxDepth && len(name) <= maxPath
}

// take records a path. It rejects a path that is already in use, unless both uses are folders. Case is ignored.
func (w *walk) take(name string, folder bool) error {
	folded := strings.ToLower(name)
	if file, taken := w.names[folded]; taken && (file || !folder) {
		return refuse("%s appears twice; upper and lower case count as the same", shown(name))
	}
	w.names[folded] = !folder
	for dir := path.Dir(folded); dir != "."; dir = path.Dir(dir) {
		file, taken := w.names[dir]
		if file {
			return refuse("%s is both a file and a folder", shown(dir))
		}
		if taken {
			break
		}
		w.names[dir] = false
	}
	return nil
}

// shown returns a member's name for a message: without control characters, and cut after 128 characters.
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
