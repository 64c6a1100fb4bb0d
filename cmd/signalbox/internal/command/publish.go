package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/transfer"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// manifestName is the file of a recipe's folder that describes the recipe.
const manifestName = "recipe.json"

// recipeManifest is what the command reads of a recipe's manifest. The server checks it, also its types.
type recipeManifest struct {
	Name any `json:"name"`
}

func (t *tool) publishRecipe() *cobra.Command {
	var listFiles bool
	cmd := &cobra.Command{
		Use: "publish FOLDER", Short: "Publish a folder as a version of a recipe of your project", Args: arguments(1, 1),
		Long: `Publish a folder as a version of a recipe. Its file ` + manifestName + ` names the recipe, PROJECT/NAME, the version, the command, the parameters and the
inputs; the project before the slash publishes the recipe, and everyone who can see the project can use it. Start from a copy of a
recipe: signalbox recipes pull.

A version never changes. To publish the same files again changes nothing; other files need another version. --list-files prints which files
are packed and sends nothing.`,
		Example: "signalbox recipes pull sft/lora --dir my-lora\nsignalbox recipes publish my-lora",
		RunE: func(cmd *cobra.Command, args []string) error {
			if listFiles {
				return t.listFolder(cmd, args[0])
			}
			return t.runPublish(cmd, args[0])
		},
	}
	cmd.Flags().BoolVar(&listFiles, "list-files", false, "print the files and send nothing")
	return cmd
}

func (t *tool) runPublish(cmd *cobra.Command, folder string) error {
	m, err := readManifest(folder)
	if err != nil {
		return err
	}
	name, _ := m.Name.(string)
	project, _, ok := strings.Cut(name, "/")
	if !ok || project == "" {
		return session.Usage("the name in %s is %q; write PROJECT/NAME, with a project of yours", manifestName, name)
	}
	if chosen := cmd.Flag("project"); chosen != nil && chosen.Changed && chosen.Value.String() != project {
		return session.Usage("--project is %s, and %s names the project %s; leave out --project, or change the name", chosen.Value, manifestName, project)
	}
	c, err := t.Client()
	if err != nil {
		return err
	}
	packed, err := t.packFolder(cmd.Context(), folder)
	if err != nil {
		return err
	}
	defer packed.close()
	id, err := t.uploadCode(cmd.Context(), c, project, packed)
	if err != nil {
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == "project" {
			err = &RemedyError{Remedy: fmt.Sprintf("change the name %s in %s to PROJECT/NAME, with a project of yours", name, manifestName), err: err}
		}
		return err
	}
	return t.send(cmd, c, http.MethodPost, recipeKind().path, map[string]any{"package_id": id}, t.showRecipe(t.sayPublished))
}

// recipeVersion is what the sentence about a changed version states.
type recipeVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`
}

func (v recipeVersion) String() string { return output.Printable(v.Name + "@" + v.Version) }

func (t *tool) sayPublished(v recipeVersion) {
	if v.State != "active" {
		t.Say("%s was published before with this content, and is %s; signalbox recipes update %s --state active", v, v.State, v)
		return
	}
	t.Say("published %s; signalbox init --recipe %s writes a job of it", v, v)
}

// showRecipe returns what shows a changed version: a sentence for people, the object for programs.
func (t *tool) showRecipe(say func(v recipeVersion)) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		p, err := t.Printer()
		if err != nil {
			return err
		}
		if !p.ForPeople() || len(p.Columns) > 0 {
			return p.Object(recipeKind().columns, raw)
		}
		var v recipeVersion
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("decode the recipe: %w", err)
		}
		say(v)
		return nil
	}
}

// readManifest reads the manifest of a folder.
func readManifest(folder string) (recipeManifest, error) {
	var m recipeManifest
	raw, err := os.ReadFile(filepath.Join(folder, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, session.Usage("%s has no %s; signalbox recipes pull RECIPE --dir FOLDER copies a recipe to start from", folder, manifestName)
	}
	if err != nil {
		return m, err
	}
	err = json.Unmarshal(raw, &m)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(raw[:min(int(syntax.Offset), len(raw))], []byte("\n"))
		return m, session.Usage("%s, line %d: %s", filepath.Join(folder, manifestName), line, err)
	}
	if err != nil {
		return m, session.Usage("%s is not a JSON object", filepath.Join(folder, manifestName))
	}
	return m, nil
}

// requireEmpty returns an error if a folder has files, which a copy could replace. What an interrupted copy has left does not count.
func requireEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".signalbox-") {
			return session.Usage("%s is not empty, and its files could be replaced; name another folder: --dir", dir)
		}
	}
	return nil
}

func (t *tool) pullRecipe() *cobra.Command {
	cmd := t.pullVersion(recipeKind(), "RECIPE[@VERSION]", "signalbox recipes pull sft/lora --dir my-lora\nsignalbox recipes pull sft/lora@1.0.0",
		t.recipeVersionPath, func(cmd *cobra.Command, c *client.Client, path, dir string) error {
			files, err := t.signedFiles(cmd, c, path+"/download")
			if err != nil {
				return err
			}
			if len(files) != 1 {
				return fmt.Errorf("the server returned %d files of a recipe; one was expected", len(files))
			}
			if err := requireEmpty(dir); err != nil {
				return err
			}
			if err := t.pullFolder(cmd.Context(), c, dir, files[0]); err != nil {
				return err
			}
			return os.Remove(filepath.Join(dir, transfer.Listing)) // the files are there to be changed
		})
	cmd.Short = "Copy the files of a recipe, to read or to change them"
	cmd.Long = "Copy the files of a version of a recipe, or of its newest one, into a folder. The folder must be new or empty."
	return cmd
}

// recipeVersionPath returns a client and the path of a version of a recipe: NAME@VERSION, or NAME for the newest one.
func (t *tool) recipeVersionPath(cmd *cobra.Command, called string) (*client.Client, string, error) {
	c, err := t.Client()
	if err != nil {
		return nil, "", err
	}
	name, version, chosen := strings.Cut(called, "@")
	path, err := recipePath(name)
	if err != nil {
		return nil, "", err
	}
	if chosen && version == "" {
		return nil, "", session.Usage("the version is missing; write %s@VERSION", name)
	}
	if !chosen {
		if version, err = newestRecipe(cmd.Context(), c, path); err != nil {
			return nil, "", err
		}
	}
	return c, path + "/versions/" + url.PathEscape(version), nil
}

func (t *tool) updateRecipe() *cobra.Command {
	fields := []field{{flag: "state", usage: "active, deprecated (not the newest any more) or withdrawn (new jobs are refused)"}}
	cmd := t.update(recipeKind(), "Change the state of a version that your project has published", "signalbox recipes update team/sft@1.0.0 --state deprecated", fields...)
	cmd.Use = "update RECIPE@VERSION"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := changes(cmd, fields)
		if err != nil {
			return err
		}
		if len(body) == 0 {
			return errNoChange()
		}
		if !strings.Contains(args[0], "@") {
			return session.Usage("name the version too: %s@VERSION", args[0])
		}
		c, path, err := t.recipeVersionPath(cmd, args[0])
		if err != nil {
			return err
		}
		return t.send(cmd, c, http.MethodPatch, path, body, t.showRecipe(func(v recipeVersion) {
			t.Say("recipe %s: %s", v, v.State)
		}))
	}
	return cmd
}
