// Package submit admits jobs. What passes every gate becomes job, run, event and audit row in one
// transaction; what does not, or breaks on the way, leaves nothing behind; and a repeat under the same
// Idempotency-Key is answered as the first was.
//
// admit.go is the deed and writes; rows.go answers the gates from this service's own rows;
// again.go submits what was submitted before; template_proto.go writes what every attempt of the job is told.
package submit

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
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idem"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/desk"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gate"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// Trail writes audit rows.
type Trail interface {
	Record(ctx context.Context, tx pgx.Tx, action, kind, target string, after any) error
}

// Admission admits submissions.
type Admission struct {
	World *gate.World
	Jobs  *job.Store
	Once  *idem.Once
	IDs   *id.Source
	Rand  io.Reader
	Trail Trail
	// Hardware is what the profiles of an accepted draft are held by.
	Hardware hardware.Store
}

// Submit passes a submission through the gates and admits it. A repeat under the same
// Idempotency-Key gets the first answer, whatever the gates would say by now.
func (a *Admission) Submit(ctx context.Context, req *jobsv1.SubmitJobRequest) (*jobsv1.Job, error) {
	return a.submit(ctx, jobsv1.JobService_SubmitJob_FullMethodName, req, func() (*gate.Draft, origin, error) {
		spec, err := jobspec.FromProto(req.GetSpec())
		return &gate.Draft{API: req.GetApi(), Spec: spec, Caller: authn.Of(ctx)}, origin{}, err
	})
}

// origin is what a job comes from besides its spec.
type origin struct {
	parents    []job.Parent
	checkpoint *job.Checkpoint
}

// submit passes what a request asks for through the gates and admits it.
func (a *Admission) submit(
	ctx context.Context, method string, req proto.Message, draft func() (*gate.Draft, origin, error),
) (*jobsv1.Job, error) {
	resp := &jobsv1.Job{}
	if replayed, err := a.Once.Replay(ctx, method, req, resp); err != nil || replayed {
		return resp, err
	}
	d, from, err := draft()
	if err != nil {
		return nil, err
	}
	if err := gate.Run(ctx, a.World.Gates(), d); err != nil {
		return nil, err
	}
	j, facts, err := a.job(d)
	if err != nil {
		return nil, err
	}
	if facts.Parents = from.parents; d.Recipe.Resumable {
		j.Checkpoint = from.checkpoint
	}
	err = a.Once.Do(ctx, method, req, resp, func(ctx context.Context, tx pgx.Tx) error {
		if err := a.admit(ctx, tx, j, facts); err != nil {
			return err
		}
		idem.Set(resp, desk.ToProto(j))
		return nil
	})
	return resp, err
}

// job makes the job of an accepted draft.
func (a *Admission) job(d *gate.Draft) (*job.Job, job.RunFacts, error) {
	if d.Spec.Seed == nil {
		seed, err := drawSeed(a.Rand)
		if err != nil {
			return nil, job.RunFacts{}, err
		}
		d.Spec.Seed = &seed
	}
	spec, digest, err := d.Spec.Canonical()
	if err != nil {
		return nil, job.RunFacts{}, gate.Refuse(gate.Hparams, "they have no canonical form: a name is there twice, or a number is not exact in JSON").Wrap(err)
	}
	j := &job.Job{
		ID: a.IDs.New(id.Job), RunID: a.IDs.New(id.Run), Name: d.Spec.Name, OwnerID: d.Caller.Subject,
		OwnerName: d.Caller.Username, ProjectID: d.Project.ID, Project: d.Project.Key, TeamID: d.Project.TeamID,
		Visibility: d.Project.Visibility, VisibilityVersion: d.Project.VisibilityVersion, Labels: d.Spec.Labels, Priority: d.Spec.Priority, Spec: spec, SpecDigest: digest, Pools: d.Spec.Resources.Pools,
		GPUs: job.Demand(d.Spec.Resources.Pools), RetryMax: d.Spec.Retry.Max, RunningS: d.Spec.Limits.RunningS,
		StartingS: d.Spec.Limits.StartingS, QueueS: d.Spec.Limits.QueuedS, OwnCommand: len(d.Spec.Source.Command) > 0,
		RetryOn: d.Spec.Retry.On, RetryCodes: d.Spec.Retry.ExitCodes, BackoffS: d.Spec.Retry.BackoffS, RetryFrom: d.Spec.Retry.Resume,
		Resumable: d.Recipe.Resumable, CheckpointGraceS: d.Spec.Checkpoint.GraceS, CheckpointNeeded: d.Spec.Checkpoint.RequiredForPause,
	}
	if j.Template, err = template(d, j.ID, j.RunID); err != nil {
		return nil, job.RunFacts{}, err
	}
	facts := job.RunFacts{RecipeDigest: d.Recipe.Digest, Protected: d.Inputs.Protected}
	if facts.RecipeLock, err = canonicalOf(d.Spec.Recipe.Lock); err != nil {
		return nil, facts, fmt.Errorf("write the recipe's lock: %w", err)
	}
	if facts.Bindings, err = canonicalOf(d.Spec.Bindings); err != nil {
		return nil, facts, fmt.Errorf("write the bindings: %w", err)
	}
	return j, facts, nil
}

func (a *Admission) admit(ctx context.Context, tx pgx.Tx, j *job.Job, facts job.RunFacts) error {
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return err
	}
	j.CreatedAt = now
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

// holdProfiles looks again at the profiles that a job names, and lets no other configuration take the place of
// that one until the job is stored: what a change does to live jobs is then told of this one too.
func (a *Admission) holdProfiles(ctx context.Context, tx pgx.Tx, j *job.Job) error {
	if !gate.Profiled(j.Pools) {
		return nil
	}
	v, err := a.Hardware.Share(ctx, tx)
	if err != nil {
		return err
	}
	return gate.CheckProfiles(&v.Config, j.Pools, j.TeamID, j.RunningS)
}

// seeds is how many different seeds are drawn: training code often keeps them in 31 bits.
const seeds = 1 << 31

func drawSeed(r io.Reader) (int64, error) {
	n, err := rand.Int(r, big.NewInt(seeds))
	if err != nil {
		return 0, fmt.Errorf("draw a seed: %w", err)
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
