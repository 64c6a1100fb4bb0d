package cluster

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// reasonClass computes the class of the reason for which Slurm holds the job j. The reasons are Slurm's, of any version, so
// unknown ones are other. Before Slurm has considered a job, its reason is empty or Pending.
const reasonClass = `CASE
		WHEN j.queue_reason IN ('', 'Pending', 'Resources', 'Priority') THEN 'capacity'
		WHEN j.queue_reason = 'Submission' THEN 'submission'
		WHEN j.queue_reason ~ '^(QOS|Assoc|Max|AccountNotAllowed|InvalidAccount|InvalidQOS|Partition.*Limit$)' THEN 'limits'
		WHEN j.queue_reason ~ '^(ReqNodeNotAvail|Node|Partition(Down|Inactive)$)' THEN 'nodes'
		ELSE 'other' END`

// maxSlurmFleets bounds the Slurm fleets that the gauges show.
const maxSlurmFleets = 100

// readSlurm returns what the gauges show of each Slurm fleet that is not disabled.
func readSlurm(ctx context.Context, q pg.Querier) ([]*slurmLoad, error) {
	rows, err := q.Query(ctx, `SELECT f.id, f.name, f.pools, coalesce(a.state = 'ready', false), a.slurm, `+fleet.SlurmSettingsOf+`
		FROM fleet f LEFT JOIN LATERAL (`+fleet.SlurmAgentOf+`) a ON true
		WHERE f.kind = 'slurm' AND f.state <> 'disabled' ORDER BY f.id LIMIT $1`, maxSlurmFleets)
	if err != nil {
		return nil, fmt.Errorf("list the Slurm fleets: %w", err)
	}
	loads, err := pgx.CollectRows(rows, scanLoad)
	if err != nil {
		return nil, fmt.Errorf("list the Slurm fleets: %w", err)
	}
	byID := map[string]*slurmLoad{}
	for _, f := range loads {
		byID[f.id] = f
	}
	rows, err = q.Query(ctx, `SELECT n.fleet_id, `+reasonClass+` AS class, count(*) FROM job j
		JOIN work w ON w.job_id = j.id AND w.attempt = j.attempt AND w.batch AND w.released_at IS NULL JOIN node n ON n.id = w.node_id
		WHERE j.state = 'scheduled' AND j.batch_held GROUP BY n.fleet_id, class`)
	if err != nil {
		return nil, fmt.Errorf("count the jobs that Slurm holds: %w", err)
	}
	var id, class string
	var jobs int64
	_, err = pgx.ForEachRow(rows, []any{&id, &class, &jobs}, func() error {
		if f := byID[id]; f != nil {
			f.held[class] = jobs
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the jobs that Slurm holds: %w", err)
	}
	return loads, nil
}

func scanLoad(row pgx.CollectableRow) (*slurmLoad, error) {
	var pools []string
	var ready bool
	var slurm fleet.Slurm
	f := &slurmLoad{held: map[string]int64{}, usable: map[string]bool{}}
	if err := row.Scan(&f.id, &f.name, &pools, &ready, &slurm.Report, &slurm.Pools); err != nil {
		return nil, err
	}
	for _, pool := range pools {
		f.usable[pool] = ready && slurm.Permits([]string{pool})
	}
	return f, nil
}
