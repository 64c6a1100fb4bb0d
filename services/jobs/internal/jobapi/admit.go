package jobapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/big"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// Admission admits submissions.
type Admission struct {
	Inputs *admission.Inputs
	Jobs   *job.Store
	Once   *idempotency.Once
	IDs    *id.Source
	Rand   io.Reader
	Trail  db.Recorder
	// Refused counts the jobs that the isolation gate refuses.
	Refused *fleet.Refusals
	// Hardware stores the hardware configuration, which is locked while a job is admitted.
	Hardware hardware.Store
}

// origin is what a new job takes from the job that it retries or clones: the parents of its run and, for a retry, the
// last checkpoint.
type origin struct {
	parents    []job.Parent
	checkpoint *job.Checkpoint
}

// submit builds a draft, checks it with the gates and admits it. A repeated request with the same Idempotency-Key
// gets the first response.
func (a *Admission) submit(
	ctx context.Context, method string, req proto.Message, draft func() (*admission.Draft, origin, error),
) (*jobsv1.Job, error) {
	resp := &jobsv1.Job{}
	if replayed, err := a.Once.Replay(ctx, method, req, resp); err != nil || replayed {
		return resp, err
	}
	d, from, err := draft()
	if err != nil {
		return nil, err
	}
	if err := admission.Run(ctx, a.Inputs.Gates(), d); err != nil {
		if fault.HasCode(err, admission.Isolation) {
			a.Refused.Add(ctx, fleet.RefusedJob)
		}
		return nil, err
	}
	if err := a.Inputs.Files(ctx, d); err != nil {
		return nil, err
	}
	j, facts, err := a.job(d)
	if err != nil {
		return nil, err
	}
	if err := a.Inputs.Bind(ctx, d); err != nil {
		return nil, err
	}
	if facts.Parents = from.parents; d.Recipe.Resumable {
		j.Checkpoint = from.checkpoint
	}
	err = a.Once.Do(ctx, method, req, resp, func(ctx context.Context, tx pgx.Tx) error {
		if err := a.admit(ctx, tx, j, facts); err != nil {
			return err
		}
		idempotency.Set(resp, ToProto(j))
		return nil
	})
	return resp, err
}

// job builds the job and the run facts of an accepted draft.
func (a *Admission) job(d *admission.Draft) (*job.Job, job.RunFacts, error) {
	if d.Spec.Seed == nil {
		seed, err := drawSeed(a.Rand)
		if err != nil {
			return nil, job.RunFacts{}, err
		}
		d.Spec.Seed = &seed
	}
	spec, digest, err := d.Spec.Canonical()
	if err != nil {
		return nil, job.RunFacts{}, admission.Refuse(admission.Hparams, "the spec has no canonical JSON: a name occurs twice, or a number is not exact in JSON").Wrap(err)
	}
	j := &job.Job{
		ID: a.IDs.New(id.Job), RunID: a.IDs.New(id.Run), Name: d.Spec.Name, OwnerID: d.Caller.Subject,
		OwnerName: d.Caller.Username, ProjectID: d.Project.ID, Project: d.Project.Key, TeamID: d.Project.TeamID,
		Visibility: d.Project.Visibility, VisibilityVersion: d.Project.VisibilityVersion, Labels: d.Spec.Labels, Priority: d.Spec.Priority, Spec: spec, SpecDigest: digest, Pools: d.Spec.Resources.Pools,
		GPUs: job.Demand(d.Spec.Resources.Pools), RetryMax: d.Spec.Retry.Max, RunningS: d.Spec.Limits.RunningS,
		StartingS: d.Spec.Limits.StartingS, QueueS: d.Spec.Limits.QueuedS, OwnCommand: len(d.Spec.Source.Command) > 0,
		RetryOn: d.Spec.Retry.On, RetryCodes: d.Spec.Retry.ExitCodes, BackoffS: d.Spec.Retry.BackoffS, RetryFrom: d.Spec.Retry.Resume,
		Resumable: d.Recipe.Resumable, CheckpointGraceS: d.Spec.Checkpoint.GraceS, CheckpointNeeded: d.Spec.Checkpoint.RequiredForPause,
		NoNetwork: d.Spec.Network == jobspec.NetworkNone, Runtime: admission.Runtime(d),
	}
	if j.Template, err = template(d, j.ID, j.RunID); err != nil {
		return nil, job.RunFacts{}, err
	}
	facts := job.RunFacts{RecipeDigest: d.Recipe.Digest, Goals: d.Recipe.Goals}
	if j.Protected = d.Inputs.Protected; j.Protected {
		facts.ProtectedDatasets = d.Inputs.ProtectedDatasets
		if facts.Disclosure, err = json.Marshal(d.Recipe.Disclosure); err != nil {
			return nil, facts, fmt.Errorf("encode the declarations of recipe %s: %w", d.Recipe.Name, err)
		}
	}
	if facts.RecipeLock, err = canonicalOf(d.Spec.Recipe.Lock); err != nil {
		return nil, facts, fmt.Errorf("encode the recipe's lock: %w", err)
	}
	if facts.Bindings, err = canonicalOf(d.Spec.Bindings); err != nil {
		return nil, facts, fmt.Errorf("encode the bindings: %w", err)
	}
	return j, facts, nil
}

func (a *Admission) admit(ctx context.Context, tx pgx.Tx, j *job.Job, facts job.RunFacts) error {
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return err
	}
	j.CreatedAt = id.Time(j.ID) // so that the id is a position in lists
	j.Status = job.Status{State: job.Queued, Checkpoint: j.Checkpoint, Queue: job.Queue{Reason: job.WaitNew, Since: now}}
	if err := a.holdProfiles(ctx, tx, j); err != nil {
		return err
	}
	if err := a.Jobs.Insert(ctx, tx, j, facts, job.Cause{}); err != nil {
		return err
	}
	return a.Trail.Record(ctx, tx, "job.submit", job.SubjectKind, j.ID,
		map[string]any{"run_id": j.RunID, "spec_digest": j.SpecDigest, "project": j.Project})
}

// holdProfiles checks the job's hardware profiles again and locks the hardware configuration until the job is
// stored. A later change of the configuration therefore counts this job among the affected ones.
func (a *Admission) holdProfiles(ctx context.Context, tx pgx.Tx, j *job.Job) error {
	if !admission.Profiled(j.Pools) {
		return nil
	}
	v, err := a.Hardware.Share(ctx, tx)
	if err != nil {
		return err
	}
	return admission.CheckProfiles(&v.Config, j.Pools, j.TeamID, j.RunningS)
}

// seeds is the number of possible seeds. Training code often stores a seed in 31 bits.
const seeds = 1 << 31

func drawSeed(r io.Reader) (int64, error) {
	n, err := rand.Int(r, big.NewInt(seeds))
	if err != nil {
		return 0, fmt.Errorf("create a seed: %w", err)
	}
	return n.Int64(), nil
}

func canonicalOf(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return canon.JSON(raw)
}
