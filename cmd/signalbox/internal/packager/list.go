package packager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

const (
	plainMode  fs.FileMode = 0o644
	runMode    fs.FileMode = 0o755
	ownerRuns  fs.FileMode = 0o100
	maxPath                = 1024 // bytes of a path that the server accepts
	maxName                = 255  // bytes of a segment of a path that the server accepts
	largeModel             = 50 << 20
)

// walker is the state of one List.
type walker struct {
	root     *os.Root
	resolved string // the folder without symbolic links
	limits   Limits
	builtin  []rule
	shapes   []shape
	window   []byte
	seen     int
	// folded maps the lower-case form of each packed path, and of the folders above it, to the path.
	folded map[string]string
	// without are the paths of files that the caller leaves out.
	without []string
	out     *Listing
}

// List examines a folder. It reads every file that is not excluded, by the patterns of the folder or by its path in without. The error is ErrLimit if the files exceed the limits; refused
// files are in the result.
func List(ctx context.Context, dir string, limits Limits, without ...string) (*Listing, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	w := &walker{
		root: root, resolved: resolved, limits: limits, builtin: builtinRules(), shapes: compileShapes(), window: newWindow(),
		folded: map[string]string{}, without: without,
		out: &Listing{dir: dir},
	}
	if err := w.folder(ctx, "", nil); err != nil {
		return nil, err
	}
	slices.SortFunc(w.out.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(w.out.Refusals, func(a, b Refusal) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(w.out.Warnings)
	return w.out, nil
}

// folder examines what is in a folder; the path of the top is empty.
func (w *walker) folder(ctx context.Context, name string, above *level) error {
	in, err := openLevel(w.root, name, above)
	if err != nil {
		return err
	}
	entries, err := w.entries(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(ctx, path.Join(name, e.Name()), e, in); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entries(name string) ([]fs.DirEntry, error) {
	f, err := w.root.Open(filepath.FromSlash(cmp.Or(name, ".")))
	if err != nil {
		return nil, fmt.Errorf("read the folder: %w", err)
	}
	defer func() { _ = f.Close() }()
	var all []fs.DirEntry
	const page = 1000
	for {
		some, err := f.ReadDir(page)
		all = append(all, some...)
		if w.seen += len(some); w.seen > maxSeen {
			return nil, fmt.Errorf("%w: the folder has more than %d files and folders; pack a smaller folder", ErrLimit, maxSeen)
		}
		if atEnd(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the folder %s: %w", shown(cmp.Or(name, ".")), err)
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all, nil
}

// entry examines an entry of a folder.
func (w *walker) entry(ctx context.Context, name string, e fs.DirEntry, in *level) error {
	if slices.Contains(w.without, name) {
		w.exclude(name, e.IsDir(), "used by the command itself")
		return nil
	}
	if why := w.exclusion(name, e.IsDir(), in); why != "" {
		w.exclude(name, e.IsDir(), why)
		return nil
	}
	switch {
	case e.IsDir():
		return w.subfolder(ctx, name, in)
	case e.Type()&fs.ModeSymlink != 0:
		return w.link(ctx, name)
	case e.Type().IsRegular():
		info, err := w.root.Lstat(filepath.FromSlash(name))
		if err != nil {
			return fmt.Errorf("read %s: %w", shown(name), err)
		}
		return w.file(ctx, name, info)
	default:
		w.exclude(name, false, "not a regular file")
		return nil
	}
}

func (w *walker) exclude(name string, folder bool, why string) {
	if folder {
		name += "/"
	}
	w.out.Files = append(w.out.Files, File{Path: name, Excluded: why})
}

// subfolder examines a folder, and packs the folder itself if nothing in it is packed.
func (w *walker) subfolder(ctx context.Context, name string, in *level) error {
	if _, err := w.root.Lstat(filepath.FromSlash(path.Join(name, "pyvenv.cfg"))); err == nil {
		w.exclude(name, true, "built in: virtual environment")
		return nil
	}
	if strings.Count(name, "/")+1 >= archive.MaxDepth {
		w.refuse(name, fmt.Sprintf("more than %d folders below each other", archive.MaxDepth-1), 0)
		return nil
	}
	packed, refused := w.out.Packed, len(w.out.Refusals)
	if err := w.folder(ctx, name, in); err != nil {
		return err
	}
	if w.out.Packed > packed || len(w.out.Refusals) > refused || !w.accept(name) {
		return nil
	}
	return w.add(File{Path: name + "/", Mode: runMode})
}

// link examines a symbolic link. A link to a file in the folder is packed as that file, because packages have no links.
func (w *walker) link(ctx context.Context, name string) error {
	info, err := w.root.Stat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("read %s: %w", shown(name), err)
	}
	if rule := linkRule(info, err); rule != "" {
		w.refuse(name, rule, 0)
		return nil
	}
	if !info.Mode().IsRegular() {
		w.exclude(name, false, "not a regular file")
		return nil
	}
	target, err := filepath.EvalSymlinks(filepath.Join(w.resolved, filepath.FromSlash(name)))
	if err != nil {
		return fmt.Errorf("read the link %s: %w", shown(name), err)
	}
	below, err := filepath.Rel(w.resolved, target)
	if err != nil {
		return fmt.Errorf("read the link %s: %w", shown(name), err)
	}
	if !filepath.IsLocal(below) {
		w.refuse(name, leaves, 0)
		return nil
	}
	if rule := sensitive(filepath.ToSlash(below)); rule != "" {
		w.refuse(name, "link to "+shown(filepath.ToSlash(below))+": "+rule, 0)
		return nil
	}
	return w.file(ctx, name, info)
}

// leaves is the rule for links to what is not in the folder.
const leaves = "link out of the folder"

// linkRule returns why a symbolic link is refused, and "" if it leads to a file in the folder. The parameters are what its target
// is, or the error if that is not accessible.
func linkRule(info fs.FileInfo, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "link to a file that does not exist, or out of the folder"
	case errors.Is(err, syscall.ELOOP):
		return "link that leads to itself"
	case err != nil:
		return leaves
	case info.IsDir():
		return "link to a folder"
	default:
		return ""
	}
}

// sensitive returns why a file with this path is refused whatever it contains, and "" if its name suggests no secret.
func sensitive(name string) string {
	if pattern := archive.Sensitive(name); pattern != "" {
		return "name " + pattern
	}
	return ""
}

// file examines a regular file.
func (w *walker) file(ctx context.Context, name string, info fs.FileInfo) error {
	if rule := sensitive(name); rule != "" {
		w.refuse(name, rule, 0)
		return nil
	}
	if !w.accept(name) {
		return nil
	}
	f, err := w.root.Open(filepath.FromSlash(name))
	if err != nil {
		return fmt.Errorf("read a file of the folder: %w", err)
	}
	defer func() { _ = f.Close() }()
	found, err := read(ctx, f, w.shapes, w.limits.Bytes-w.out.Bytes, w.window)
	if errors.Is(err, errLarge) {
		return fmt.Errorf("%w: the files have more than %d MiB, with %s; exclude data in %s", ErrLimit, w.limits.Bytes>>20, shown(name),
			OwnIgnoreFile)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", shown(name), err)
	}
	if found.finding != nil {
		w.refuse(name, found.finding.rule, found.finding.line)
		return nil
	}
	mode := plainMode
	if info.Mode()&ownerRuns != 0 {
		mode = runMode
	}
	if found.size > largeModel && checkpoint(name) {
		w.out.Warnings = append(w.out.Warnings, fmt.Sprintf("%s has %d MiB; exclude it in %s if the job does not need it",
			shown(name), found.size>>20, OwnIgnoreFile))
	}
	return w.add(File{Path: name, Size: found.size, Mode: mode, SHA256: found.sha256})
}

// checkpoint reports whether a file is a model by its name.
func checkpoint(name string) bool {
	return slices.Contains([]string{".ckpt", ".pt", ".pth", ".safetensors", ".gguf"}, strings.ToLower(path.Ext(name)))
}

// add packs a file.
func (w *walker) add(f File) error {
	if w.out.Packed++; w.out.Packed > w.limits.Files {
		return fmt.Errorf("%w: the folder has more than %d files; exclude data in %s", ErrLimit, w.limits.Files, OwnIgnoreFile)
	}
	w.out.Bytes += f.Size
	w.out.Files = append(w.out.Files, f)
	return nil
}

func (w *walker) refuse(name, rule string, line int) {
	w.out.Refusals = append(w.out.Refusals, Refusal{Path: name, Rule: rule, Line: line})
}

// accept reports whether the server accepts a path beside those before it, and refuses the path otherwise.
func (w *walker) accept(name string) bool {
	odd := func(r rune) bool { return unicode.IsControl(r) || r == '\\' }
	if len(name) > maxPath || len(path.Base(name)) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, odd) {
		w.refuse(name, "path that is too long, or has a backslash or a character that is not printable", 0)
		return false
	}
	for part := name; part != "."; part = path.Dir(part) {
		lower := strings.ToLower(part)
		if other, taken := w.folded[lower]; taken && other != part {
			w.refuse(name, "differs from "+shown(other)+" only by upper and lower case", 0)
			return false
		}
		w.folded[lower] = part
	}
	return true
}
