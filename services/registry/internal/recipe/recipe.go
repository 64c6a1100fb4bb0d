// Package recipe keeps the catalog that submissions are checked against: the recipes that are built into
// this program, each version with its digest, its tree in the object store and its lock document. What a
// version's digest names never changes.
package recipe

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/canon"
)

// The states of a version.
const (
	StateActive    = "active"
	StateWithdrawn = "withdrawn"
)

// Manifest is recipe.json as far as the registry reads it.
type Manifest struct {
	API         string `json:"api"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Framework   struct {
		Name      string `json:"name"`
		RuntimeID string `json:"runtime_id"`
		Image     string `json:"image"`
	} `json:"framework"`
	Entrypoint    []string        `json:"entrypoint"`
	Requirements  string          `json:"requirements"`
	ParamsSchema  json.RawMessage `json:"params_schema"`
	ResourcesHint json.RawMessage `json:"resources_hint"`
	Inputs        json.RawMessage `json:"inputs"`
	Outputs       json.RawMessage `json:"outputs"`
	Metrics       json.RawMessage `json:"metrics"`
	Resumable     bool            `json:"resumable"`
	State         string          `json:"state"`
}

// Version is one version of a recipe.
type Version struct {
	Manifest

	Digest string
	// Text is the manifest as it was written; Pins are the requirements that it names.
	Text       []byte
	Pins       string
	TreeSHA256 string
	TreeBytes  int64
	LockedAt   time.Time
}

// read understands a manifest.
func read(text []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read the manifest of a recipe: %w", err)
	}
	return m, nil
}

// digest is over the manifest and the digest of the tree.
func digest(manifest []byte, treeSHA256 string) (string, error) {
	raw, err := json.Marshal(map[string]any{"manifest": json.RawMessage(manifest), "tree": "sha256:" + treeSHA256})
	if err != nil {
		return "", fmt.Errorf("join manifest and tree: %w", err)
	}
	return canon.Digest(raw)
}

// TreeKey is where the tree lies in the object store.
func (v *Version) TreeKey() string { return "recipes/sha256/" + v.TreeSHA256 + ".tar" }

// RequiredDatasets are the inputs that a submission must bind a dataset to.
func (v *Version) RequiredDatasets() ([]string, error) {
	var inputs []struct {
		Name     string `json:"name"`
		Kind     string `json:"kind"`
		Required bool   `json:"required"`
	}
	if len(v.Inputs) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(v.Inputs, &inputs); err != nil {
		return nil, fmt.Errorf("read the inputs of recipe %s: %w", v.Name, err)
	}
	var names []string
	for _, in := range inputs {
		if in.Kind == "dataset" && in.Required {
			names = append(names, in.Name)
		}
	}
	return names, nil
}

// CatalogDigest names the whole catalog: versions in the order of List.
func CatalogDigest(versions []*Version) (string, error) {
	type entry struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Digest  string `json:"digest"`
	}
	entries := make([]entry, 0, len(versions))
	for _, v := range versions {
		entries = append(entries, entry{v.Name, v.Version, v.Digest})
	}
	raw, err := json.Marshal(entries)
	if err != nil {
		return "", fmt.Errorf("write the catalog: %w", err)
	}
	return canon.Digest(raw)
}

// Newest is the active version with the highest number, nil where none is active.
func Newest(versions []*Version) *Version {
	var newest *Version
	for _, v := range versions {
		if v.State == StateActive && (newest == nil || less(newest.Version, v.Version)) {
			newest = v
		}
	}
	return newest
}

// less compares versions of numbers with dots; what is no number sorts as text.
func less(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; i < len(as) && i < len(bs); i++ {
		x, errX := strconv.Atoi(as[i])
		y, errY := strconv.Atoi(bs[i])
		switch {
		case as[i] == bs[i]:
		case errX == nil && errY == nil && x != y:
			return x < y
		default:
			return as[i] < bs[i]
		}
	}
	return len(as) < len(bs)
}
