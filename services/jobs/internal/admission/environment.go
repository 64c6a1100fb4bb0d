package admission

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

const maxEnvValue = 32 << 10

// checkEnvironment refuses an environment for a recipe that brings its own. It refuses variables that the platform reserves or that control the loader, the interpreter, the shell
// or the accelerator's runtime.
func checkEnvironment(d *Draft) error {
	if d.Spec.Runtime != nil && d.Spec.Recipe.Name != CustomRecipe {
		return Refuse(Environment, "spec.runtime is allowed only for the recipe %s; %s brings its own environment", CustomRecipe, d.Spec.Recipe.Name)
	}
	form := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Env)) {
		value := d.Spec.Env[name]
		switch {
		case !form.MatchString(name):
			return Refuse(Environment, "%q is not a valid environment variable name", name)
		case reserved(strings.ToUpper(name)):
			return Refuse(Environment, "%s is reserved by the platform and cannot be set", name)
		case len(value) > maxEnvValue:
			return Refuse(Environment, "the value of %s is longer than %d bytes", name, maxEnvValue)
		case strings.ContainsRune(value, 0):
			return Refuse(Environment, "the value of %s contains NUL", name)
		}
	}
	return nil
}

func reserved(name string) bool {
	switch name {
	case "PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV", "CDPATH", "PS4", "PROMPT_COMMAND", "TMPDIR", "USER", "LOGNAME",
		"PWD", "VIRTUAL_ENV", "GCONV_PATH", "LOCPATH", "NODE_OPTIONS", "PERL5OPT", "PERL5LIB", "RUBYOPT", "JAVA_TOOL_OPTIONS",
		"SSLKEYLOGFILE", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH":
		return true
	}
	for _, prefix := range []string{
		"LD_", "DYLD_", "NVIDIA_", "CUDA_VISIBLE", "HIP_VISIBLE", "ROCR_VISIBLE", "SERVICE_", "PYTHON", "PIP_", "UV_", "BASH_FUNC_", "MALLOC_", "GLIBC_",
		"KUBEFLOW_TRAINER_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
