package engine

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// command runs any program that serves the OpenAI API.
type command struct{}

func (command) Environment(spec executor.EngineSpec) executor.EnvironmentSpec {
	return spec.Environment
}

func (command) Plan(spec executor.EngineSpec, at Place) (Command, error) {
	if len(spec.Command) == 0 {
		return Command{}, errors.New("driver command: the engine spec has no command")
	}
	replace := strings.NewReplacer(
		"{model}", at.ModelDir, "{host}", at.Host, "{port}", strconv.Itoa(at.Port), "{api_key_file}", at.KeyFile)
	var args []string
	for _, arg := range append(slices.Clip(spec.Command), spec.Args...) {
		args = append(args, replace.Replace(arg))
	}
	if args[0] == "python" {
		args[0] = at.Python
	}
	return Command{Args: args}, nil
}
