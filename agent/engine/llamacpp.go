package engine

import (
	_ "embed" // for llamacppLock and llamacppLauncher
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

//go:embed locks/llamacpp.lock
var llamacppLock string

//go:embed launch/llamacpp.py
var llamacppLauncher []byte

// llamacpp runs llama.cpp's server from the wheel xllamacpp.
type llamacpp struct{}

func (llamacpp) Environment(executor.EngineSpec) executor.EnvironmentSpec {
	return executor.EnvironmentSpec{Requirements: llamacppLock}
}

// taskEmbedding is the task of models that compute embeddings.
const taskEmbedding = "embedding"

func (llamacpp) Plan(spec executor.EngineSpec, at Place) (Command, error) {
	if err := refuseReserved(spec.Args, "--model", "--host", "--port", "--api-key-file", "--alias"); err != nil {
		return Command{}, err
	}
	model, err := findModel(at.ModelDir, ".gguf")
	if err != nil {
		return Command{}, err
	}
	const launcher = "llamacpp.py"
	args := []string{
		at.Python, filepath.Join(at.Dir, launcher), "--model", model, "--host", at.Host, "--port", strconv.Itoa(at.Port),
		"--api-key-file", at.KeyFile, "--alias", ServedName(spec),
	}
	if spec.Task == taskEmbedding {
		args = append(args, "--embeddings")
	}
	return Command{Args: slices.Concat(args, spec.Args), Files: map[string][]byte{launcher: llamacppLauncher}}, nil
}

// refuseReserved returns an error if the arguments contain a reserved option, which only the agent may set. argparse
// accepts abbreviated options, so refuseReserved also rejects abbreviations of these options.
func refuseReserved(args []string, reserved ...string) error {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		for _, r := range reserved {
			if strings.HasPrefix(name, "--") && len(name) > len("--") && strings.HasPrefix(r, name) {
				return fmt.Errorf("argument %s is not allowed: the platform sets this option; remove it", name)
			}
		}
	}
	return nil
}

// findModel returns the path of the first file, in name order, that ends with the given suffix. If a model is split
// into several files, the engine loads it from the first one.
func findModel(dir, kind string) (string, error) {
	found := ""
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && found == "" && entry.Type().IsRegular() && strings.HasSuffix(path, kind) {
			found = path
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("find the model's file: %w", err)
	}
	if found == "" {
		return "", fmt.Errorf("the model contains no %s file", kind)
	}
	return found, nil
}
