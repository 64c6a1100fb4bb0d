// Package gate judges submissions: one gate after the other, cheap ones first, and the first that refuses
// names itself. A gate writes nothing, and who could only tell something of a later gate is not asked.
//
// One file a gate, each pure over a Draft, which is what has been submitted and looked up so far
// (recipe.go also holds the hyperparameters against the recipe, capacity.go is quota and hardware);
// world.go is what the gates look at, and their order.
package gate

import (
	"context"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/catalog"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// The gates, in their order, by the names that refusals carry.
const (
	Dialect     = "dialect"
	Environment = "environment"
	Entrypoint  = "entrypoint_override"
	Recipe      = "recipe_handshake"
	Hparams     = "hparams"
	Project     = "project"
	Bindings    = "bindings"
	Image       = "image_registry"
	Quota       = "quota"
	Hardware    = "hardware"
)

// Draft is a submission on its way through the gates, with what was looked up for them.
type Draft struct {
	API    string
	Spec   jobspec.Spec
	Caller *authn.Caller

	Recipe  *catalog.Recipe // the catalog's version that the spec names
	Project *ProjectFacts   // where it goes
	Inputs  *catalog.Inputs // what the bindings are
	Pools   map[string]PoolFacts
	Account quota.Account
	Team    *quota.Account // of the project, nil where it has none
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

// Refuse is a 400 that names its gate.
func Refuse(gate, format string, args ...any) *fault.Error {
	return refuseAs(fault.Refused, gate, format, args...)
}

func refuseAs(kind fault.Kind, gate, format string, args ...any) *fault.Error {
	return fault.New(kind, gate, gate+": "+format, args...)
}

// checkDialect refuses a client that speaks another dialect.
func checkDialect(d *Draft) error {
	if d.API != jobspec.Dialect {
		return Refuse(Dialect, "this control plane speaks %s, the submission %s", jobspec.Dialect, d.API)
	}
	return nil
}
