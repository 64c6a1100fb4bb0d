package admission

import (
	"context"
	"fmt"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// CustomRecipe is the only recipe that runs a command given by the user.
const CustomRecipe = "custom/custom"

// checkEntrypoint refuses a command for any recipe but CustomRecipe, and an entrypoint in any submission.
func checkEntrypoint(d *Draft) error {
	src := d.Spec.Source
	custom := d.Spec.Recipe.Name == CustomRecipe
	switch {
	case src.Entrypoint != "":
		return Refuse(Entrypoint, "spec.source.entrypoint must be empty: the recipe owns the entrypoint")
	case custom && (len(src.Command) == 0 || src.Command[0] == ""):
		return Refuse(Entrypoint, "the recipe %s needs spec.source.command", CustomRecipe)
	case !custom && len(src.Command) > 0:
		return Refuse(Entrypoint, "spec.source.command is allowed only for the recipe %s; %s owns its entrypoint",
			CustomRecipe, d.Spec.Recipe.Name)
	}
	return nil
}

// pack looks up the package in which the command runs. The registry checks the content of a package when it is
// committed. If the registry refuses the package, or if the package does not exist, the registry's error already has
// the gate's name and is returned unchanged.
func (w *Inputs) pack(ctx context.Context, d *Draft) error {
	name := d.Spec.Source.Package
	if name == "" {
		return nil
	}
	if d.Spec.Recipe.Name != CustomRecipe {
		return Refuse(Package, "spec.source.package is allowed only for the recipe %s; %s brings its own code",
			CustomRecipe, d.Spec.Recipe.Name)
	}
	ref := jobspec.PackageRef{ID: name}
	if d.Spec.Runtime != nil {
		ref.Lock = d.Spec.Runtime.Requirements
	}
	if err := w.resolve(ctx, d, ref); err != nil {
		if ofPackage(err) {
			return err
		}
		return fmt.Errorf("look up the package: %w", err)
	}
	d.Package = d.found.Package
	return nil
}

// ofPackage reports whether an error is a refusal by one of the package gates.
func ofPackage(err error) bool {
	f := fault.From(err)
	return (f.Code == archive.GatePackage || f.Code == archive.GateSensitive) && strings.HasPrefix(f.Text(), f.Code+": ")
}
