package archive

import (
	"path"
	"strings"
)

// Sensitive returns the pattern by which a file with this path usually holds secrets, and "" if there is none. The programs that pack files
// and the server that accepts packages decide by this one table.
func Sensitive(name string) (pattern string) {
	whole := strings.ToLower(name)
	base := path.Base(whole)
	if harmless(base) {
		return ""
	}
	for _, pattern := range sensitiveNames() {
		if ok, _ := path.Match(pattern, base); ok {
			return pattern
		}
	}
	for _, end := range sensitivePaths() {
		if whole == end || strings.HasSuffix(whole, "/"+end) {
			return end
		}
	}
	return ""
}

// sensitiveNames returns the patterns, in lower case, for the names of files that usually hold secrets.
func sensitiveNames() []string {
	return []string{
		".env*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.ppk", "*.kdbx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
		"credentials*", ".netrc", "_netrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials", ".dockercfg", "kubeconfig", "*.kubeconfig",
		"kaggle.json", ".vault-token", ".terraformrc",
	}
}

// sensitivePaths returns the ends, in lower case, of the paths of files whose names alone say little.
func sensitivePaths() []string {
	return []string{".kube/config", ".docker/config.json"}
}

// harmless reports whether base is the name of a template without values. Packages may contain templates.
func harmless(base string) bool {
	switch base {
	case ".env.example", ".env.sample", ".env.template":
		return true
	default:
		return false
	}
}
