package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Driver prepares one kind of engine.
type Driver interface {
	// Environment returns the Python environment that the engine needs.
	Environment(spec executor.EngineSpec) executor.EnvironmentSpec
	// Plan returns the command that starts the engine with the given paths and address.
	Plan(spec executor.EngineSpec, at Place) (Command, error)
}

// Place holds the paths and the address of one start of an engine.
type Place struct {
	// Dir is the folder for the files of this start. ModelDir contains the model's files.
	Dir      string
	ModelDir string
	Host     string
	Port     int
	// KeyFile is the file that contains the API key that callers must send.
	KeyFile string
	// Python is the interpreter of the engine's environment. Bin is the folder of the environment's programs.
	Python string
	Bin    string
}

// Command is the command that starts an engine.
type Command struct {
	Args []string
	Env  []string
	// Files maps file names to contents. The files must be written to Place.Dir before the start.
	Files map[string][]byte
}

// DefaultName is the served name of a model if the spec has none.
const DefaultName = "default"

// ServedName returns the first served name of the spec, or DefaultName if the spec has none.
func ServedName(spec executor.EngineSpec) string {
	if len(spec.ServedNames) == 0 {
		return DefaultName
	}
	return spec.ServedNames[0]
}

// Drivers returns all drivers. The keys are their names in engine specs.
func Drivers() map[string]Driver {
	return map[string]Driver{"llamacpp": llamacpp{}, "transformers": transformers{}, "command": command{}}
}

// Names returns the names of the drivers, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(Drivers()))
}

// Find returns the driver with the name in the spec. It returns an error if no driver has that name.
func Find(spec executor.EngineSpec) (Driver, error) {
	d, ok := Drivers()[spec.Driver]
	if !ok {
		return nil, fmt.Errorf("unknown engine driver %q", spec.Driver)
	}
	return d, nil
}
