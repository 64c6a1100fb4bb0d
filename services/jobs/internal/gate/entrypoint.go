package gate

import (
	"context"
	"fmt"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// CustomRecipe is the one recipe that runs its user's command.
const CustomRecipe = "custom/custom"

// checkEntrypoint keeps the entrypoint the recipe's own.
func checkEntrypoint(d *Draft) error {
	src := d.Spec.Source
	custom := d.Spec.Recipe.Name == CustomRecipe
	switch {
	case src.Entrypoint != "":
		return Refuse(Entrypoint, "spec.source.entrypoint must be empty: the recipe owns the entrypoint")
	case custom && (len(src.Command) == 0 || src.Command[0] == ""):
		return Refuse(Entrypoint, "the recipe %s needs spec.source.command", CustomRecipe)
	case !custom && len(src.Command) > 0:
		return Refuse(Entrypoint, "spec.source.command is for the recipe %s only: %s owns its entrypoint",
			CustomRecipe, d.Spec.Recipe.Name)
	}
	return nil
}

// pack looks the package up that the command runs in. Its bytes were judged when it was committed: what was found
// then, and a package that is not there, is refused by the gate that names itself in the registry's answer.
func (w *World) pack(ctx context.Context, d *Draft) (err error) {
	name := d.Spec.Source.Package
	if name == "" {
		return nil
	}
	if d.Spec.Recipe.Name != CustomRecipe {
		return Refuse(Package, "spec.source.package is for the recipe %s only: %s brings its own code", CustomRecipe, d.Spec.Recipe.Name)
	}
	d.Package, err = w.Catalog.Package(ctx, name)
	if err == nil || ofPackage(err) {
		return err
	}
	return fmt.Errorf("look up the package: %w", err)
}

// ofPackage says whether an error is a refusal of a package's gates.
func ofPackage(err error) bool {
	f := fault.From(err)
	return (f.Code == archive.GatePackage || f.Code == archive.GateSensitive) && strings.HasPrefix(f.Text(), f.Code+": ")
}
