package packager

import (
	"path"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

// nameRule returns why a file with this path is refused whatever it contains, and "" if its name suggests no secret. It refuses
// at least what the server refuses.
func nameRule(name string) string {
	whole := strings.ToLower(name)
	base := path.Base(whole)
	for _, pattern := range secretNames() {
		if ok, err := path.Match(pattern, base); ok && err == nil && !template(base) {
			return "name " + pattern
		}
	}
	for _, end := range secretPaths() {
		if whole == end || strings.HasSuffix(whole, "/"+end) {
			return "name " + end
		}
	}
	if archive.Sensitive(name) {
		return "name"
	}
	return ""
}

// secretNames returns the patterns, in lower case, for the names of files that usually hold secrets.
func secretNames() []string {
	return []string{
		".env*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.ppk", "*.kdbx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
		"credentials*", ".netrc", "_netrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials", ".dockercfg", "kubeconfig", "*.kubeconfig",
	}
}

// secretPaths returns the ends, in lower case, of the paths of files whose names alone say little.
func secretPaths() []string {
	return []string{".kube/config", ".docker/config.json"}
}

// template reports whether a file is a template without values, by its name in lower case.
func template(base string) bool {
	switch base {
	case ".env.example", ".env.sample", ".env.template":
		return true
	default:
		return false
	}
}
