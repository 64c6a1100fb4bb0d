package gate

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
