// Package recipes is the built-in recipe catalog.
//
// It owns the recipes' files as they stand in this folder and hands them out as
// one read-only file system: a folder namespace/name for each recipe, with its
// manifest recipe.json, its requirements.lock and its code. Tests, sources of
// the locks and Python's caches are never part of it: every pattern names the
// files it means, so that a recipe's digest depends on the recipe alone.
package recipes

import (
	"embed"
	"io/fs"
)

// Manifest is the name of the file that describes a recipe, in its folder.
const Manifest = "recipe.json"

//go:embed custom/custom/recipe.json custom/custom/requirements.lock
//go:embed demo/chat-tiny/recipe.json demo/chat-tiny/requirements.lock
//go:embed demo/chat-tiny/make_dataset.py demo/chat-tiny/chat_tiny/*.py
var catalog embed.FS

// FS gives the catalog: namespace/name/recipe.json and what stands beside it.
func FS() fs.FS { return catalog }
