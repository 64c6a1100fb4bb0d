// Package catalog is what a submission may refer to, as the registry keeps it: versions of recipes, and
// what datasets and models its bindings name. It asks the registry under the caller's identity and keeps
// nothing; what the caller may not see is as unknown as what is not there. The *_proto.go files alone
// speak proto.
package catalog

import "github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"

// Recipe is one version of a recipe in the catalog.
type Recipe struct {
	Name, Version, Digest, State string
	Framework                    jobspec.Framework
	ParamsSchema                 []byte
	Inputs                       []Input
	RequiredDatasets             []string
	Entrypoint                   []string // empty for custom/custom
	Resumable                    bool     // it saves its state when asked, and takes it up
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
	Protected           bool // one of the datasets is
}
