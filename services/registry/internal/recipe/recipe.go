// Package recipe owns the recipe catalog, against which job submissions are checked. It contains the recipes that are
// built into this binary and those that projects publish. Each version of a recipe has a digest, a tree in the object
// store and a lock document. The content identified by a digest never changes, and neither does a version that a project
// has published.
package recipe

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
)

// The states of a version.
const (
	StateActive     = "active"
	StateDeprecated = "deprecated"
	StateWithdrawn  = "withdrawn"
)

// Manifest holds the members of recipe.json that the registry reads.
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
		// Python is for readers. The requirements decide which interpreters they fit.
		Python string `json:"python"`
	} `json:"framework"`
	Entrypoint    []string        `json:"entrypoint"`
	Requirements  string          `json:"requirements"`
	ParamsSchema  json.RawMessage `json:"params_schema"`
	ResourcesHint json.RawMessage `json:"resources_hint"`
	Inputs        json.RawMessage `json:"inputs"`
	Outputs       json.RawMessage `json:"outputs"`
	Metrics       json.RawMessage `json:"metrics"`
	// Charts has keys of metrics and patterns, in which "*" stands for any text.
	Charts    []string `json:"charts"`
	Resumable bool     `json:"resumable"`
	State     string   `json:"state"`
}

// Version is one version of a recipe.
type Version struct {
	Manifest
	// Owner is empty if the version comes with the installation.
	access.Owner

	Digest string
	// Text is the verbatim manifest. RequirementsText is the content of the requirements file that the manifest names.
	Text             []byte
	RequirementsText string
	TreeSHA256       string
	TreeBytes        int64
	LockedAt         time.Time
	// Shipped means that a binary of the installation contains the version. TrustedDigest is the digest that an
	// administrator trusts, or nil.
	Shipped       bool
	TrustedDigest *string
}

// customRecipe is the recipe that runs commands of users. It is never trusted.
const customRecipe = "custom/custom"

// Trusted reports whether jobs of the version may read protected datasets.
func (v *Version) Trusted() bool {
	return v.Name != customRecipe && (v.Shipped || v.TrustedDigest != nil && *v.TrustedDigest == v.Digest)
}

// The maximum number of charts of a recipe, and of characters of each, which is that of the key of a metric.
const (
	maxCharts = 12
	maxChart  = 256
)

// check returns an error if the manifest is not one that the catalog may contain.
func (m *Manifest) check() error {
	if len(m.Charts) > maxCharts {
		return fmt.Errorf("charts has %d entries; name at most %d keys or patterns", len(m.Charts), maxCharts)
	}
	for i, chart := range m.Charts {
		if n := utf8.RuneCountInString(chart); n < 1 || n > maxChart {
			return fmt.Errorf("charts[%d] has %d characters; a key or pattern has 1 to %d", i, n, maxChart)
		}
		if err := checkText(fmt.Sprintf("charts[%d]", i), chart, maxChart); err != nil {
			return err
		}
	}
	return nil
}

// read parses a manifest. Lists and the hint that it leaves out are empty.
func read(text []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read the manifest of a recipe: %w", err)
	}
	for _, list := range []*json.RawMessage{&m.Inputs, &m.Outputs, &m.Metrics} {
		if len(*list) == 0 || string(*list) == "null" {
			*list = json.RawMessage(`[]`)
		}
	}
	if len(m.ResourcesHint) == 0 || string(m.ResourcesHint) == "null" {
		m.ResourcesHint = json.RawMessage(`{}`)
	}
	return m, nil
}

// digest returns the digest of a version, which covers the manifest and the digest of the tree.
func digest(manifest []byte, treeSHA256 string) (string, error) {
	raw, err := json.Marshal(map[string]any{"manifest": json.RawMessage(manifest), "tree": "sha256:" + treeSHA256})
	if err != nil {
		return "", fmt.Errorf("encode the manifest and the tree: %w", err)
	}
	return canon.Digest(raw)
}

// TreeKey returns the object key of the tree. The tree of a version that a project has published is the package of this
// project.
func (v *Version) TreeKey() string {
	if v.ProjectID != "" {
		return codepackage.Key(v.ProjectID, v.TreeSHA256)
	}
	return "recipes/sha256/" + v.TreeSHA256 + ".tar"
}

// RequiredDatasets returns the names of the inputs to which a submission must bind a dataset.
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

// CatalogDigest returns the digest of versions, which must be in the order of List.
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
		return "", fmt.Errorf("encode the catalog: %w", err)
	}
	return canon.Digest(raw)
}

// Newest returns the active version with the highest number, or nil if no version is active.
func Newest(versions []*Version) *Version {
	var newest *Version
	for _, v := range versions {
		if v.State == StateActive && (newest == nil || less(newest.Version, v.Version)) {
			newest = v
		}
	}
	return newest
}

// less compares dotted versions part by part. Parts that are not numbers are compared as text.
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
