package solution

import (
	"context"
	"fmt"
	"slices"

	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
)

// Drift describes how a binding differs from the snapshot of its application.
type Drift string

// The drifts. DriftUnknown means that the object was deleted or is hidden from the caller.
const (
	DriftNone       Drift = "current"
	DriftNewer      Drift = "newer_version"
	DriftArchived   Drift = "archived"
	DriftChanged    Drift = "changed"
	DriftUnreadable Drift = "unreadable"
	DriftUnknown    Drift = "unknown"
)

// BindingStatus is the drift of one binding.
type BindingStatus struct {
	Name, Ref string
	Drift     Drift
	// Latest is the reference of the newest version if it differs from Ref.
	Latest string
}

// Status is the drift of an application.
type Status struct {
	Bindings []BindingStatus
	Warnings []string
}

// Drifted reports whether any binding differs from the snapshot.
func (s *Status) Drifted() bool {
	return slices.ContainsFunc(s.Bindings, func(b BindingStatus) bool { return b.Drift != DriftNone })
}

// Status compares the bindings of an application with the catalog, with the caller's permissions.
func (c *Catalog) Status(ctx context.Context, a *Application) (*Status, error) {
	out := &Status{}
	files := map[string][]dataset.File{}
	for _, p := range a.Snapshot.Bindings.places() {
		f, err := c.find(ctx, p.name, *p.ref)
		if err != nil {
			return nil, err
		}
		if f != nil {
			files[p.name] = f.files
		}
		out.Bindings = append(out.Bindings, judge(p.name, *p.ref, a.Resolved[p.name], f))
	}
	m, err := Read(a.Snapshot.Manifest, "manifest")
	if err != nil {
		return nil, fmt.Errorf("read the manifest of an application: %w", err)
	}
	f, err := c.recipe(ctx, m.Recipe)
	if err != nil {
		return nil, err
	}
	out.Bindings = append(out.Bindings, judge(BindRecipe, m.Recipe, a.Snapshot.RecipeDigest, f))
	if n := shared(files[BindTrain], files[BindValidation]); n > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("overlap: %d of the %d files of the validation dataset are also in the train dataset",
			n, len(files[BindValidation])))
	}
	return out, nil
}

// judge compares the current catalog entry of a reference with its digest in the snapshot.
func judge(name, text, digest string, f *found) BindingStatus {
	s := BindingStatus{Name: name, Ref: text, Drift: DriftNone}
	switch {
	case f == nil:
		s.Drift = DriftUnknown
		return s
	case f.unreadable:
		s.Drift = DriftUnreadable
	case f.digest != digest:
		s.Drift = DriftChanged
	case f.retired:
		s.Drift = DriftArchived
	case f.latest != "" && f.latest != text:
		s.Drift = DriftNewer
	}
	if f.latest != text {
		s.Latest = f.latest
	}
	return s
}

// shared counts the non-empty validation files whose bytes also occur in a train file.
func shared(train, validation []dataset.File) (n int) {
	sums := make(map[string]bool, len(train))
	for _, f := range train {
		sums[f.SHA256] = true
	}
	for _, f := range validation {
		if sums[f.SHA256] && f.Size > 0 {
			n++
		}
	}
	return n
}
