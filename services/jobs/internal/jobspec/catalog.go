package jobspec

// Recipe is one version of a recipe in the catalog.
type Recipe struct {
	Name, Version, Digest, State string
	Framework                    Framework
	ParamsSchema                 []byte
	Inputs                       []Input
	RequiredDatasets             []string
	Entrypoint                   []string // empty for custom/custom
	Resumable                    bool     // the recipe saves a checkpoint on request and can resume from it
	Trusted                      bool     // its jobs may read protected datasets
	Disclosure                   *Disclosure
	// Goals has "minimize" or "maximize" for the metrics whose best values the recipe states.
	Goals       map[string]string
	Package     *Object
	Environment *Environment
}

// Input is a dataset or model that a recipe reads.
type Input struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // dataset or model
	Format   string `json:"format"`
	Required bool   `json:"required"`
}

// Object is an object in the object store that the executor downloads into the attempt's files.
type Object struct {
	Path, URI string
	Size      int64
	SHA256    string
	Unpack    bool
}

// Environment is the Python environment of a recipe.
type Environment struct {
	Requirements, Digest string
	Lock                 string // path of the lock in the recipe's package, if a project has published the recipe
	SDK                  bool
}

// Bound is the dataset or model to which a reference was resolved.
type Bound struct {
	Name, Ref, Digest string
	Format            string // of a model; empty from earlier versions
	Files             []Object
}

// PackageRef names the package of a submission, and the path in it of the lock of Python packages that the job uses. Both
// may be empty.
type PackageRef struct{ ID, Lock string }

// Resolved is what the registry has for the references of a submission.
type Resolved struct {
	Recipes []Recipe // the version of the recipe or, if it does not exist, another one; none if the recipe is unknown
	Package *Object  // nil if no package was requested
	Inputs  *Inputs
}

// Inputs are the datasets and models to which the bindings of a spec refer, as far as the submitter may use them.
type Inputs struct {
	Datasets            []Bound
	Model               *Bound
	Unknown, Unreadable []string
	Protected           bool // at least one of the datasets is protected, or the model comes from a protected run
	// ProtectedDatasets are the ids of the protected datasets. They make the run protected.
	ProtectedDatasets []string
	FilesApart        bool // the files are not included; Catalog.Files adds them
}
