package admission

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// profiles looks up the hardware profiles to which a submission refers. If it refers to none, no lookup is made.
func (w *Inputs) profiles(ctx context.Context, d *Draft) error {
	if !Profiled(d.Spec.Resources.Pools) {
		return nil
	}
	v, err := w.Hardware.Current(ctx)
	if err != nil {
		return fmt.Errorf("look up the hardware configuration: %w", err)
	}
	return CheckProfiles(&v.Config, d.Spec.Resources.Pools, d.Project.TeamID, d.Spec.Limits.RunningS)
}

// Profiled reports whether a part of a gang requests a profile.
func Profiled(pools []job.Pool) bool {
	for _, p := range pools {
		if p.Profile != "" {
			return true
		}
	}
	return false
}

// CheckProfiles refuses a request that its profile does not allow. If a request does not set a size, CheckProfiles sets
// it to the size of the profile. A profile that the team may not use is refused like a profile that does not exist.
func CheckProfiles(c *hardware.Config, pools []job.Pool, teamID string, runningS int) error {
	for i := range pools {
		want := &pools[i]
		if want.Profile == "" {
			continue
		}
		p, ok := c.Profile(want.Profile)
		if !ok || !p.OpenTo(teamID) {
			return Refuse(Hardware, "profile %s does not exist", want.Profile)
		}
		p.Fill(want)
		if why := p.Refusal(hardware.ProfileRequest{Pool: *want, TeamID: teamID, RunningS: runningS}); why != "" {
			return Refuse(Hardware, "%s", why)
		}
	}
	return nil
}
