package admission

import (
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// checkImage refuses an image whose registry is not one of the allowed registries. Host and port must both be equal.
func checkImage(d *Draft, allowed []string) error {
	image, _ := d.Spec.ContainerImage()
	if image == nil {
		return nil
	}
	host, rest, found := strings.Cut(image.Ref, "/")
	ref := image.Ref
	if found && strings.ContainsAny(host, ".:") {
		ref = strings.ToLower(host) + "/" + rest
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return Refuse(Image, "%q is not a valid image reference", image.Ref)
	}
	registry := strings.ToLower(reference.Domain(named))
	if !slices.Contains(allowed, registry) {
		return Refuse(Image, "the registry %s is not on the allowlist of this installation", registry)
	}
	return nil
}

// checkContainers refuses a job with an image: no agent runs containers yet, and the job must not run in the host's
// environment instead.
func checkContainers(d *Draft) error {
	image, field := d.Spec.ContainerImage()
	if image == nil {
		return nil
	}
	return refuseAs(fault.Unconfigured, Containers, "pool %s runs no containers; remove %s", d.Spec.Resources.Pools[0].Pool, field)
}
