package submit

import (
	"context"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Recipe is one version of a recipe in the catalog.
type Recipe struct {
	Name, Version, Digest, State string
	Framework                    Framework
	ParamsSchema                 []byte
	Inputs                       []Input
	RequiredDatasets             []string
	Entrypoint                   []string // empty for custom/custom
	Package                      *Object
	Environment                  *Environment
}

// Input is something that a recipe reads.
type Input struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // dataset or model
	Required bool   `json:"required"`
}

// Object is an object of the store that the executor lays out.
type Object struct {
	Path, URI string
	Size      int64
	SHA256    string
	Unpack    bool
}

// Environment is the Python environment of a recipe.
type Environment struct {
	Requirements, Digest string
	SDK                  bool
}

// Bound is a dataset or model that a reference was resolved to.
type Bound struct {
	Name, Ref, Digest string
	Files             []Object
}

// Inputs is what the bindings of a spec resolve to, with the rights of its submitter.
type Inputs struct {
	Datasets            []Bound
	Model               *Bound
	Unknown, Unreadable []string
}

// Project is where a job belongs.
type Project struct{ ID, Key, Visibility string }

// PoolFacts is what is known of a pool.
type PoolFacts struct {
	Known bool
	Nodes []NodeFacts
}

// NodeFacts is how large a node is.
type NodeFacts struct {
	ID         string
	GPUs, CPUs int
	MemoryGB   int
}

// Catalog resolves what a submission refers to. Both calls carry the caller's identity.
type Catalog interface {
	// Recipe answers every version of a recipe, none for an unknown one.
	Recipe(ctx context.Context, name string) ([]Recipe, error)
	Resolve(ctx context.Context, b Bindings) (*Inputs, error)
}

// Projects resolves a project; nil for an unknown one.
type Projects interface {
	Project(ctx context.Context, key string) (*Project, error)
}

// Pools tells what is known of a pool.
type Pools interface {
	Pool(ctx context.Context, name string) (PoolFacts, error)
}

// Accounts tells what the caller may hold.
type Accounts interface {
	Of(ctx context.Context, userID string) (quota.Account, error)
}
