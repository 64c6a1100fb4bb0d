package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/jobfile"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// lockCommand returns the command that writes the lock of a recipe into a job file.
func (t *tool) lockCommand() *cobra.Command {
	var update bool
	cmd := &cobra.Command{
		Use: "lock FILE", Short: "Write the version and the lock of its recipe into a job file", Args: arguments(1, 1),
		Long: `Write the version and the lock of its recipe into a job file in YAML, so that the file always submits the same code. Its other lines
are not changed. A file without a version gets the newest one.

If the file has a lock, it is compared with the catalog, and the exit status is 2 if it differs, as the submission would be refused. --update
takes the newest version and its lock.`,
		Example: "signalbox recipes lock job.yaml\nsignalbox recipes lock job.yaml --update",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			return t.lockFile(cmd.Context(), c, args[0], update)
		},
	}
	cmd.Flags().BoolVar(&update, "update", false, "take the newest version of the recipe")
	return cmd
}

func (t *tool) lockFile(ctx context.Context, c *client.Client, file string, update bool) error {
	if file == "-" {
		return session.Usage("name the file that gets the lock; standard input cannot be changed")
	}
	read, err := t.readJob(submitOptions{file: file})
	if err != nil {
		return err
	}
	recipe, path, err := recipeOf(read.spec)
	if err != nil {
		return err
	}
	newest, err := newestRecipe(ctx, c, path)
	if err != nil {
		return err
	}
	version := textAt(recipe, "version")
	if lock, locked := recipe["lock"]; locked && !update {
		return t.compareLock(ctx, c, file, path, lock, cmp.Or(version, newest), newest)
	}
	if update || version == "" {
		version = newest
	}
	lock, err := currentLock(ctx, c, path, version)
	if err != nil {
		return err
	}
	var content any
	if err := json.Unmarshal(lock, &content); err != nil {
		return fmt.Errorf("decode the lock: %w", err)
	}
	recipe["version"], recipe["lock"] = version, content
	changed, err := jobfile.SetRecipe(read.raw, recipe)
	if err != nil {
		return session.Usage("%s: %s", file, err)
	}
	if err := replaceFile(file, changed); err != nil {
		return err
	}
	t.Say("%s: locked to %s %s", file, recipe["name"], version)
	return nil
}

// replaceFile replaces the content of a file, or leaves it as it was. Its permissions, and a link to it, stay.
func replaceFile(file string, content []byte) error {
	path, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return localfile.Write(path, content, info.Mode().Perm())
}

// lockFields are the members of a lock that a submission compares with the catalog.
func lockFields() []string { return []string{"name", "version", "digest", "framework.runtime_id"} }

// compareLock compares the lock of a file with that in the catalog.
func (t *tool) compareLock(ctx context.Context, c *client.Client, file, path string, lock any, version, newest string) error {
	different, err := lockDifferences(ctx, c, path, lock, version)
	if err != nil {
		return err
	}
	if len(different) > 0 {
		texts := make([]string, len(different))
		for i, d := range different {
			texts[i] = d.String()
		}
		return session.Usage("%s: %s; signalbox recipes lock %s --update takes the current lock", file, strings.Join(texts, "; "), file)
	}
	if version != newest {
		t.Say("%s: the lock is valid; version %s is newer, and --update takes it", file, newest)
		return nil
	}
	t.Say("%s: the lock is valid, and its version is the newest", file)
	return nil
}

// lockDifference is a member of a lock that differs from the catalog. Its path has the names with dots between them.
type lockDifference struct{ path, file, catalog string }

// String returns the difference for people.
func (d lockDifference) String() string {
	return fmt.Sprintf("%s is %q in the lock of the file and %q in the catalog", d.path, d.file, d.catalog)
}

// lockDifferences returns how a lock differs from that in the catalog, in the members that a submission compares.
func lockDifferences(ctx context.Context, c *client.Client, path string, lock any, version string) ([]lockDifference, error) {
	raw, err := currentLock(ctx, c, path, version)
	if err != nil {
		return nil, err
	}
	var current any
	if err := json.Unmarshal(raw, &current); err != nil {
		return nil, fmt.Errorf("decode the lock: %w", err)
	}
	var different []lockDifference
	for _, field := range lockFields() {
		if mine, theirs := textAt(lock, field), textAt(current, field); mine != theirs {
			different = append(different, lockDifference{path: field, file: mine, catalog: theirs})
		}
	}
	return different, nil
}

// textAt returns the text of a member of an object, or "" if it has none. The path has the names with dots between them.
func textAt(value any, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// recipeOf returns the recipe of a spec, which can be only its name, and the path of its resource.
func recipeOf(spec map[string]any) (recipe map[string]any, path string, err error) {
	recipe, ok := spec["recipe"].(map[string]any)
	if name, isText := spec["recipe"].(string); isText {
		recipe, ok = map[string]any{"name": name}, true
	}
	name, named := recipe["name"].(string)
	if !ok || !named {
		return nil, "", session.Usage("the job has no recipe; add recipe: NAME, of those in signalbox recipes ls")
	}
	for member, value := range map[string]any{"version": recipe["version"], "lock": recipe["lock"]} {
		if value == nil {
			delete(recipe, member)
		}
	}
	version, set := recipe["version"]
	if _, isText := version.(string); set && !isText {
		return nil, "", session.Usage("recipe.version is %v; write it as text: version: \"1.2.0\"", version)
	}
	if short, chosen, ok := strings.Cut(name, "@"); ok {
		if set && version != chosen {
			return nil, "", session.Usage("the job names version %s of the recipe in its name, and %v as its version; remove one of them", chosen, version)
		}
		name, recipe["name"], recipe["version"], set = short, short, chosen, true
	}
	if locked := textAt(recipe["lock"], "version"); !set && locked != "" {
		recipe["version"] = locked
	}
	path, err = recipePath(name)
	return recipe, path, err
}

// lockRecipe adds to a spec the newest version and the lock of its recipe if it has none.
func (t *tool) lockRecipe(ctx context.Context, c *client.Client, spec map[string]any) error {
	recipe, path, err := recipeOf(spec)
	if err != nil {
		return err
	}
	if _, set := recipe["version"]; !set {
		if recipe["version"], err = newestRecipe(ctx, c, path); err != nil {
			return err
		}
	}
	if _, set := recipe["lock"]; !set {
		if recipe["lock"], err = currentLock(ctx, c, path, fmt.Sprint(recipe["version"])); err != nil {
			return err
		}
	}
	spec["recipe"] = recipe
	return nil
}

// newestRecipe returns the newest version of the recipe whose resource has the path.
func newestRecipe(ctx context.Context, c *client.Client, path string) (string, error) {
	var newest struct {
		Version string `json:"version"`
	}
	err := c.Get(ctx, path, nil, &newest)
	return newest.Version, err
}

// currentLock returns the lock of a version of a recipe.
func currentLock(ctx context.Context, c *client.Client, path, version string) (json.RawMessage, error) {
	var lock json.RawMessage
	err := c.Get(ctx, path+"/versions/"+url.PathEscape(version)+"/lock", nil, &lock)
	return lock, err
}
