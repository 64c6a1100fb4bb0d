// Package submit admits jobs. A submission passes one gate after the other, cheap ones first; the
// first that refuses names itself, and nothing has been written by then. What passes them all becomes
// job, run, event and audit row in one transaction.
//
// One file a gate (gate_*.go), each pure over a Draft; lookup.go fetches what the gates look at;
// admit.go writes; submit_proto.go and template_proto.go alone speak proto.
package submit

import (
	"context"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Dialect is the JobSpec dialect of this control plane.
const Dialect = "service/v1"

// The gates, in their order, by the names that refusals carry.
const (
	GateDialect     = "dialect"
	GateEnvironment = "environment"
	GateEntrypoint  = "entrypoint_override"
	GateRecipe      = "recipe_handshake"
	GateHparams     = "hparams"
	GateProject     = "project"
	GateBindings    = "bindings"
	GateImage       = "image_registry"
	GateHardware    = "hardware"
	GateQuota       = "quota"
)

// Draft is a submission on its way through the gates, with what was looked up for them.
type Draft struct {
	API    string
	Spec   Spec
	Caller *authn.Caller

	Recipe  *Recipe  // the catalog's version that the spec names
	Project *Project // where it goes
	Inputs  *Inputs  // what the bindings are
	Pools   map[string]PoolFacts
	Account quota.Account
}

// Gate judges a draft. It may look something up before; a refusal is a fault with its name.
type Gate struct {
	Name  string
	Check func(ctx context.Context, d *Draft) error
}

// Run passes a draft through the gates up to the first refusal.
func Run(ctx context.Context, gates []Gate, d *Draft) error {
	for _, g := range gates {
		if err := g.Check(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// refuse is a 400 that names its gate.
func refuse(gate, format string, args ...any) *fault.Error {
	return refuseAs(fault.Refused, gate, format, args...)
}

func refuseAs(kind fault.Kind, gate, format string, args ...any) *fault.Error {
	return fault.New(kind, gate, gate+": "+format, args...)
}
