package revision

import (
	"slices"
	"strconv"
	"strings"
)

// llamaCppOptions returns the options that the engine llamacpp accepts, as in agent/engine/launch/llamacpp.py. They
// have the same names as in llama.cpp's own server, except for --ctx and --exact. The platform sets the options for the
// path and the name of the model, the address and the key.
func llamaCppOptions() []string {
	return []string{
		"--ctx-size", "--ctx", "-c", "--parallel", "-np", "--threads", "-t", "--batch-size", "-b", "--ubatch-size", "-ub",
		"--n-gpu-layers", "-ngl", "--embeddings", "--pooling", "--exact",
	}
}

// transformersOptions returns the options that the engine transformers accepts, as in
// agent/engine/launch/transformers_serve.py, except those that the platform sets.
func transformersOptions() []string {
	return []string{"--ctx-size", "-c", "--threads", "-t", "--dtype", "--attn-implementation"}
}

// checkOptions returns an error if an argument is an option that the engine does not accept. It does not check the values
// of options, because the engine checks them.
func checkOptions(engine string, args []string) error {
	accepted := llamaCppOptions()
	if engine == EngineTransformers {
		accepted = transformersOptions()
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if _, err := strconv.ParseFloat(name, 64); err == nil || !strings.HasPrefix(name, "-") {
			continue // a value
		}
		if !slices.Contains(accepted, name) {
			return refused("engine %s has no option %q; it takes %s", engine, name, strings.Join(accepted, ", "))
		}
	}
	return nil
}
