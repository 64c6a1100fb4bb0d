// Package recipes embeds the built-in recipes.
//
// It provides their files as one read-only file system. Each recipe has a folder namespace/name with its manifest
// recipe.json, its requirements.lock and its code. The patterns exclude tests, the sources of the lock files and
// Python's caches, so that they do not change a recipe's digest.
package recipes

import (
	"embed"
	"io/fs"
)

// Manifest is the name of the file in a recipe's folder that describes the recipe.
const Manifest = "recipe.json"

//go:embed custom/custom/recipe.json custom/custom/requirements.lock
//go:embed demo/chat-tiny/recipe.json demo/chat-tiny/requirements.lock
//go:embed demo/chat-tiny/make_dataset.py demo/chat-tiny/chat_tiny/*.py
//go:embed pref/dpo/recipe.json pref/dpo/requirements.lock pref/dpo/*.py
//go:embed rl/grpo/recipe.json rl/grpo/requirements.lock rl/grpo/*.py
//go:embed sft/full/recipe.json sft/full/requirements.lock sft/full/*.py
//go:embed sft/lora/recipe.json sft/lora/requirements.lock sft/lora/*.py
var catalog embed.FS

// FS returns the embedded files. The paths begin with namespace/name.
func FS() fs.FS { return catalog }
