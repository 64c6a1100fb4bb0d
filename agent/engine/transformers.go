package engine

import (
	_ "embed" // for transformersLock and transformersLauncher
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

//go:embed locks/transformers.lock
var transformersLock string

//go:embed launch/transformers_serve.py
var transformersLauncher []byte

// transformers runs the server of `transformers serve`.
type transformers struct{}

func (transformers) Environment(executor.EngineSpec) executor.EnvironmentSpec {
	return executor.EnvironmentSpec{Requirements: transformersLock}
}

func (transformers) Plan(spec executor.EngineSpec, at Place) (Command, error) {
	if err := refuseReserved(spec.Args, "--model", "--host", "--port", "--api-key-file", "--alias"); err != nil {
		return Command{}, err
	}
	if spec.Task == taskEmbedding {
		return Command{}, errors.New("the engine transformers computes no embeddings: serve a GGUF file of the model with llamacpp, or use the engine command")
	}
	model, err := findFolder(at.ModelDir)
	if err != nil {
		return Command{}, err
	}
	// Python looks for modules in the folder of the launcher first, so the launcher must not be called transformers.py.
	const launcher = "transformers_serve.py"
	args := []string{
		at.Python, filepath.Join(at.Dir, launcher), "--model", model, "--host", at.Host, "--port", strconv.Itoa(at.Port),
		"--api-key-file", at.KeyFile,
	}
	names := spec.ServedNames
	if len(names) == 0 {
		names = []string{DefaultName}
	}
	for _, name := range names {
		args = append(args, "--alias", name)
	}
	return Command{Args: slices.Concat(args, spec.Args), Files: map[string][]byte{launcher: transformersLauncher}}, nil
}

// findFolder returns the folder with the model in the layout of Hugging Face: the first folder, in name order and with
// the fewest parents, that contains the file config.json.
func findFolder(dir string) (string, error) {
	const config = "config.json"
	found, depth := "", 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		parents := strings.Count(path, string(filepath.Separator))
		if err == nil && entry.Type().IsRegular() && entry.Name() == config && (found == "" || parents < depth) {
			found, depth = filepath.Dir(path), parents
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("find the model's folder: %w", err)
	}
	if found == "" {
		return "", fmt.Errorf("the model contains no %s: the engine transformers needs the whole folder in the layout of Hugging Face, not only the weights", config)
	}
	return found, nil
}
