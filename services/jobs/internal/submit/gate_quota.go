package submit

import (
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// checkQuota refuses only what the account could never hold. What it could hold once others end is
// admitted and waits.
func checkQuota(d *Draft) error {
	asked := job.Demand(d.Spec.Resources.Pools)
	if !d.Account.Admits(asked) {
		return refuseAs(fault.Forbidden, GateQuota, "requested %d GPUs, %d available", asked, d.Account.Limit)
	}
	return nil
}
