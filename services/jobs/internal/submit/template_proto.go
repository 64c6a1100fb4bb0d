package submit

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

const (
	graceS    = 30
	maxPids   = 4096
	gigabytes = 1 << 30
)

// template is the agent's spec of every attempt of a job, without what each attempt adds. It holds
// no secret.
func template(d *Draft, jobID, runID string) ([]byte, error) {
	command := d.Recipe.Entrypoint
	if d.Recipe.Name == CustomRecipe {
		command = d.Spec.Source.Command
	}
	m := &jobsv1.AttemptSpec{
		JobId: jobID, RunId: runID, Recipe: d.Recipe.Name, RecipeVersion: d.Recipe.Version, RecipeDigest: d.Recipe.Digest,
		Package: objectToProto(d.Recipe.Package), Environment: environmentToProto(d.Recipe.Environment),
		Command: command, Hparams: d.Spec.Hparams, Env: d.Spec.Env, Seed: *d.Spec.Seed,
		Limits: limitsToProto(d.Spec.Resources.Pools), GraceS: graceS,
	}
	for _, b := range d.Inputs.Datasets {
		m.Datasets = append(m.Datasets, &jobsv1.DatasetInput{Name: b.Name, Ref: b.Ref, Digest: b.Digest, Files: objectsToProto(b.Files)})
	}
	if b := d.Inputs.Model; b != nil {
		m.Model = &jobsv1.ModelInput{Ref: b.Ref, Digest: b.Digest, Files: objectsToProto(b.Files)}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write the attempts' spec: %w", err)
	}
	return raw, nil
}

// limitsToProto takes the largest wish of the pools; GPUs are set for each rank when it is placed.
func limitsToProto(pools []job.Pool) *jobsv1.ResourceLimits {
	l := &jobsv1.ResourceLimits{Pids: maxPids}
	for _, p := range pools {
		l.Cpus = max(l.GetCpus(), int32(p.CPU))
		l.MemoryBytes = max(l.GetMemoryBytes(), int64(p.MemoryGB)*gigabytes)
	}
	return l
}

func objectToProto(o *Object) *jobsv1.ObjectRef {
	if o == nil {
		return nil
	}
	return &jobsv1.ObjectRef{Path: o.Path, Uri: o.URI, SizeBytes: o.Size, Sha256: o.SHA256, Unpack: o.Unpack}
}

func objectsToProto(objects []Object) []*jobsv1.ObjectRef {
	refs := make([]*jobsv1.ObjectRef, len(objects))
	for i := range objects {
		refs[i] = objectToProto(&objects[i])
	}
	return refs
}

func objectFromProto(m *jobsv1.ObjectRef) *Object {
	if m == nil {
		return nil
	}
	return &Object{Path: m.GetPath(), URI: m.GetUri(), Size: m.GetSizeBytes(), SHA256: m.GetSha256(), Unpack: m.GetUnpack()}
}

func objectsFromProto(refs []*jobsv1.ObjectRef) []Object {
	objects := make([]Object, len(refs))
	for i, r := range refs {
		objects[i] = *objectFromProto(r)
	}
	return objects
}

func environmentToProto(e *Environment) *jobsv1.EnvironmentSpec {
	if e == nil {
		return nil
	}
	return &jobsv1.EnvironmentSpec{Requirements: e.Requirements, Digest: e.Digest, Sdk: e.SDK}
}

func environmentFromProto(m *jobsv1.EnvironmentSpec) *Environment {
	if m == nil {
		return nil
	}
	return &Environment{Requirements: m.GetRequirements(), Digest: m.GetDigest(), SDK: m.GetSdk()}
}
