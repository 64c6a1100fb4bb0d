package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Driver knows one kind of engine.
type Driver interface {
	// Environment is what the engine needs installed.
	Environment(spec executor.EngineSpec) executor.EnvironmentSpec
	// Plan says how to start the engine at its place.
	Plan(spec executor.EngineSpec, at Place) (Command, error)
}

// Place is where an engine is started.
type Place struct {
	// Dir is the folder of this start; ModelDir holds the model's files.
	Dir      string
	ModelDir string
	Host     string
	Port     int
	// KeyFile holds the key that callers must send.
	KeyFile string
	// Python is the interpreter of the engine's environment, Bin its programs.
	Python string
	Bin    string
}

// Command is how to start an engine.
type Command struct {
	Args []string
	Env  []string
	// Files are to be written into the place's folder first.
	Files map[string][]byte
}

// DefaultName is the model's name in every engine's API.
const DefaultName = "default"

// ServedName is the name under which probes ask for the model.
func ServedName(spec executor.EngineSpec) string {
	if len(spec.ServedNames) == 0 {
		return DefaultName
	}
	return spec.ServedNames[0]
}

// Drivers are the engines that can be run, by the name in the spec.
func Drivers() map[string]Driver {
	return map[string]Driver{"llamacpp": llamacpp{}, "command": command{}}
}

// Names lists the drivers, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(Drivers()))
}

// Find answers the driver of the spec.
func Find(spec executor.EngineSpec) (Driver, error) {
	d, ok := Drivers()[spec.Driver]
	if !ok {
		return nil, fmt.Errorf("there is no engine driver %q", spec.Driver)
	}
	return d, nil
}
