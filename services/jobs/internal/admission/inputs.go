package admission

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Inputs holds the lookups that the gates use.
type Inputs struct {
	Catalog  Catalog
	Projects Projects
	Pools    Pools
	Accounts Accounts
	Hardware Profiles
	// Registries are the allowed image registries, as host or host:port.
	Registries []string
}

// ProjectFacts describes the project to which a job belongs.
type ProjectFacts struct {
	ID, Key, Visibility string
	// VisibilityVersion is the version of Visibility, stored with the rows that copy it.
	VisibilityVersion int64
	TeamID            string // empty if the project has no team
	Archived          bool
}

// PoolFacts describes a pool.
type PoolFacts struct {
	Known bool
	// OnlySlurm reports that only Slurm fleets serve the pool.
	OnlySlurm bool
	Nodes     []NodeFacts
	// Clusters are the Slurm clusters that serve the pool.
	Clusters []ClusterFacts
	// MemoryGB is the memory that a job gets on each node if it requests none; 0 means no default.
	MemoryGB int
	// Processes is the number of processes and threads that a job may have on each node; 0 means the usual number.
	Processes int
}

// ClusterFacts describes the cluster of a Slurm fleet.
type ClusterFacts struct {
	FleetID string
	Slurm   *fleet.Slurm
	// Runtimes are the environments that the agent offers; nil before it has connected.
	Runtimes []string
}

// NodeFacts is the size of a node, without its slots.
type NodeFacts struct {
	ID   string
	Size job.Room
	// Permitted reports whether the node may run work of the pool. It is true for a node that has never connected.
	Permitted bool
	// ClosesNetwork reports whether the node can run work without network access. It is true for a node that has never
	// connected.
	ClosesNetwork bool
	// Runtimes are the environments that the node offers; nil for a node that has never connected.
	Runtimes []string
}

// Catalog looks up the recipes, packages and references of a submission, with the identity of the caller in ctx.
type Catalog interface {
	// Resolve returns everything that a submission refers to. If the registry does not accept the package or the lock in
	// it, Resolve returns the refusal of the package's gate.
	Resolve(ctx context.Context, recipe jobspec.RecipeRef, p jobspec.PackageRef, b jobspec.Bindings) (*jobspec.Resolved, error)
	// Bind resolves the bindings once more when a job is about to be admitted, and records that the job reads the
	// protected datasets among them.
	Bind(ctx context.Context, b jobspec.Bindings) (*jobspec.Inputs, error)
	// Files adds the files to inputs that were resolved without them, because they are too many for one message.
	Files(ctx context.Context, in *jobspec.Inputs) error
}

// Projects looks up projects. The result is nil if the project does not exist.
type Projects interface {
	Project(ctx context.Context, key string) (*ProjectFacts, error)
}

// Pools looks up pools.
type Pools interface {
	Pool(ctx context.Context, name string) (PoolFacts, error)
}

// Accounts looks up the quota of the caller and of the project's team.
type Accounts interface {
	Of(ctx context.Context, userID string) (quota.Account, error)
	OfTeam(ctx context.Context, teamID string) (quota.Account, error)
}

// Profiles returns the hardware configuration in force.
type Profiles interface {
	Current(ctx context.Context) (*hardware.Version, error)
}

// Gates returns all gates in order. Quota comes before hardware: an account's limit is independent of the pools'
// hardware, and the specification assigns requests above the limit to the quota gate. The gate for features that do not
// exist yet comes last, so that the caller first learns what must be corrected in any case. Each gate makes its own
// lookups, so no lookup is made for a submission that an earlier gate refuses. The registry is an
// exception: it is called once for all gates, by the first gate that needs it.
func (w *Inputs) Gates() []Gate {
	recipe := func(d *Draft) bool { return d.Recipe != nil }
	project := func(d *Draft) bool { return d.Project != nil }
	return []Gate{
		{Name: Dialect, Check: pure(checkDialect)},
		{Name: Environment, Check: pure(checkEnvironment)},
		{Name: Package, Check: w.pack},
		{Name: Entrypoint, Check: pure(checkEntrypoint)},
		{Name: Recipe, Check: w.recipe},
		{Name: Hparams, Check: pure(checkHparams), Needs: recipe},
		{Name: Project, Check: w.project},
		{Name: Bindings, Check: w.bindings, Needs: recipe},
		{Name: Image, Check: pure(func(d *Draft) error { return checkImage(d, w.Registries) })},
		{Name: Quota, Check: w.quota, Needs: project},
		{Name: Hardware, Check: w.hardware},
		{Name: Isolation, Check: pure(checkIsolation), Needs: func(d *Draft) bool { return checkHardware(d) == nil }},
		{Name: Containers, Check: pure(checkContainers)},
	}
}

func pure(check func(d *Draft) error) func(context.Context, *Draft) error {
	return func(_ context.Context, d *Draft) error { return check(d) }
}

// resolve reads everything that the draft refers to from the registry, unless an earlier gate has already done so.
func (w *Inputs) resolve(ctx context.Context, d *Draft, p jobspec.PackageRef) (err error) {
	if d.found == nil {
		d.found, err = w.Catalog.Resolve(ctx, d.Spec.Recipe, p, d.Spec.Bindings)
	}
	return err
}

func (w *Inputs) recipe(ctx context.Context, d *Draft) error {
	if err := w.resolve(ctx, d, jobspec.PackageRef{}); err != nil {
		return fmt.Errorf("look up the recipe: %w", err)
	}
	if err := checkRecipe(d, d.found.Recipes); err != nil {
		return err
	}
	return checkKeeping(d)
}

func (w *Inputs) project(ctx context.Context, d *Draft) (err error) {
	if d.Project, err = w.Projects.Project(ctx, d.Spec.Project); err != nil {
		return fmt.Errorf("look up the project: %w", err)
	}
	return checkProject(authn.ScopeOf(ctx), d)
}

func (w *Inputs) bindings(ctx context.Context, d *Draft) error {
	if err := checkBindingNames(d); err != nil {
		return err
	}
	if err := w.resolve(ctx, d, jobspec.PackageRef{}); err != nil {
		return fmt.Errorf("resolve the bindings: %w", err)
	}
	d.Inputs = d.found.Inputs
	if err := checkBindings(d.Inputs); err != nil {
		return err
	}
	if err := checkModelFormat(d.Recipe, d.Inputs); err != nil {
		return err
	}
	inherit(d.Inputs, d.Inherited)
	return checkTrust(d.Recipe, d.Inputs)
}

// Files adds the lists of files to the inputs of a draft that all gates have accepted.
func (w *Inputs) Files(ctx context.Context, d *Draft) error {
	if !d.Inputs.FilesApart {
		return nil
	}
	if err := w.Catalog.Files(ctx, d.Inputs); err != nil {
		return fmt.Errorf("list the files of the bindings: %w", err)
	}
	return nil
}

// Bind calls the registry to record which protected datasets the job of a draft reads. Call it after the gates and
// before the job is stored: then a refused submission leaves no record, and each job that reads a protected dataset has
// a record. Bind uses the exact versions that the gates saw, and refuses them if the caller has lost access since.
func (w *Inputs) Bind(ctx context.Context, d *Draft) error {
	if !d.Inputs.Protected {
		return nil
	}
	exact := jobspec.Bindings{Datasets: map[string]string{}}
	for _, b := range d.Inputs.Datasets {
		exact.Datasets[b.Name] = b.Ref
	}
	if d.Inputs.Model != nil {
		exact.Model = d.Inputs.Model.Ref
	}
	now, err := w.Catalog.Bind(ctx, exact)
	if err != nil {
		return fmt.Errorf("bind the datasets: %w", err)
	}
	return checkBindings(now)
}

func (w *Inputs) hardware(ctx context.Context, d *Draft) error {
	d.Pools = map[string]PoolFacts{}
	for _, p := range d.Spec.Resources.Pools {
		if _, known := d.Pools[p.Pool]; known {
			continue
		}
		facts, err := w.Pools.Pool(ctx, p.Pool)
		if err != nil {
			return fmt.Errorf("look up the pool: %w", err)
		}
		d.Pools[p.Pool] = facts
	}
	fillMemory(d)
	return checkHardware(d)
}

// quota looks up the hardware profiles first, because they determine how many GPUs are requested.
func (w *Inputs) quota(ctx context.Context, d *Draft) (err error) {
	if err := w.profiles(ctx, d); err != nil {
		return err
	}
	if d.Account, err = w.Accounts.Of(ctx, d.Caller.Subject); err != nil {
		return fmt.Errorf("look up the account: %w", err)
	}
	if d.Project.TeamID != "" {
		team, err := w.Accounts.OfTeam(ctx, d.Project.TeamID)
		if err != nil {
			return fmt.Errorf("look up the team: %w", err)
		}
		d.Team = &team
	}
	return checkQuota(d)
}
