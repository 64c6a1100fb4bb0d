package jobapi

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

const (
	graceS  = int32(job.StopGrace / time.Second)
	maxPids = 4096
)

// template encodes the agent's spec that all attempts of a job share, without the fields set for each attempt. It
// contains no secrets.
func template(d *admission.Draft, jobID, runID string) ([]byte, error) {
	command := d.Recipe.Entrypoint
	if d.Recipe.Name == admission.CustomRecipe {
		command = d.Spec.Source.Command
	}
	m := &jobsv1.AttemptSpec{
		JobId: jobID, RunId: runID, Recipe: d.Recipe.Name, RecipeVersion: d.Recipe.Version, RecipeDigest: d.Recipe.Digest,
		Package: jobspec.ObjectToProto(cmp.Or(d.Package, d.Recipe.Package)), Environment: jobspec.EnvironmentToProto(d.Recipe.Environment),
		Command: command, Hparams: d.Spec.Hparams, Env: d.Spec.Env, Seed: *d.Spec.Seed,
		Limits: templateLimitsToProto(d.Spec.Resources.Pools), GraceS: graceS,
	}
	for _, b := range d.Inputs.Datasets {
		m.Datasets = append(m.Datasets, &jobsv1.DatasetInput{Name: b.Name, Ref: b.Ref, Digest: b.Digest, Files: jobspec.ObjectsToProto(b.Files)})
	}
	if b := d.Inputs.Model; b != nil {
		m.Model = &jobsv1.ModelInput{Ref: b.Ref, Digest: b.Digest, Files: jobspec.ObjectsToProto(b.Files)}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the spec template of a job: %w", err)
	}
	return raw, nil
}

// templateLimitsToProto returns, for each resource, the largest request of any pool. GPUs are set for each rank when
// it is placed.
func templateLimitsToProto(pools []job.Pool) *jobsv1.ResourceLimits {
	l := &jobsv1.ResourceLimits{Pids: maxPids}
	for _, p := range pools {
		l.Cpus = max(l.GetCpus(), int32(p.CPU))
		l.MemoryBytes = max(l.GetMemoryBytes(), p.Need().Memory)
	}
	return l
}
