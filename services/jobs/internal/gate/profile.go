package gate

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// profiles resolves the hardware profiles that a submission names; one that names none asks nobody.
func (w *World) profiles(ctx context.Context, d *Draft) error {
	if !Profiled(d.Spec.Resources.Pools) {
		return nil
	}
	v, err := w.Hardware.Current(ctx)
	if err != nil {
		return fmt.Errorf("look up the hardware configuration: %w", err)
	}
	return CheckProfiles(&v.Config, d.Spec.Resources.Pools, d.Project.TeamID, d.Spec.Limits.RunningS)
}

// Profiled says whether a gang names a profile.
func Profiled(pools []job.Pool) bool {
	for _, p := range pools {
		if p.Profile != "" {
			return true
		}
	}
	return false
}

// CheckProfiles refuses what the profiles do not admit, and fills in their sizes where none is named. Who may
// not ask for a profile is told so in the words of one that is not there.
func CheckProfiles(c *hardware.Config, pools []job.Pool, teamID string, runningS int) error {
	for i := range pools {
		want := &pools[i]
		if want.Profile == "" {
			continue
		}
		p, ok := c.Profile(want.Profile)
		if !ok || !p.OpenTo(teamID) {
			return Refuse(Hardware, "there is no profile %s", want.Profile)
		}
		p.Fill(want)
		if why := p.Refusal(hardware.Ask{Pool: *want, TeamID: teamID, RunningS: runningS}); why != "" {
			return Refuse(Hardware, "%s", why)
		}
	}
	return nil
}
