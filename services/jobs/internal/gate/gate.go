// Package gate judges submissions: one gate after the other, cheap ones first, and the first that refuses
// names itself. A gate writes nothing, and who could only tell something of a later gate is not asked.
//
// One file a gate, each pure over a Draft, which is what has been submitted and looked up so far
// (recipe.go also holds the hyperparameters against the recipe, capacity.go is quota and hardware);
// world.go is what the gates look at, and their order.
package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/archive"
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
	Package     = archive.GatePackage // and archive.GateSensitive, which looks at the same bytes
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

	Package *catalog.Object // what the command runs in, nil for none
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
	// Needs says whether earlier gates found what this one looks at; nil where it looks at the submission alone.
	Needs func(d *Draft) bool
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

// Status is what a gate says.
type Status string

// What gates say. Skip: an earlier gate found nothing to hold this one against.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Verdict is what one gate says to a draft.
type Verdict struct {
	Gate    string
	Status  Status
	Refusal *fault.Error
}

// RunAll passes a draft through every gate, also past those that refuse. An error is one of a lookup.
func RunAll(ctx context.Context, gates []Gate, d *Draft) ([]Verdict, error) {
	verdicts, early := make([]Verdict, 0, len(gates)), map[string]*fault.Error{}
	for i, g := range gates {
		v := Verdict{Gate: g.Name, Status: Pass}
		switch refusal := early[g.Name]; {
		case refusal != nil:
			v.Status, v.Refusal = Fail, refusal
		case g.Needs != nil && !g.Needs(d):
			v.Status = Skip
		default:
			refusal, err := refused(g.Check(ctx, d))
			switch {
			case err != nil:
				return nil, err
			case refusal != nil && slices.ContainsFunc(gates[i+1:], func(g Gate) bool { return g.Name == refusal.Code }):
				// What this gate looks at first is a later one's to refuse.
				v.Status, early[refusal.Code] = Skip, refusal
			case refusal != nil:
				v.Status, v.Refusal = Fail, refusal
			}
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// refused tells a refusal, which has the name of its gate in front, from the error of a lookup.
func refused(err error) (*fault.Error, error) {
	if err == nil {
		return nil, nil //nolint:nilnil // a gate that lets pass has neither
	}
	f := fault.From(err)
	if f.Code == "" || !strings.HasPrefix(f.Text(), f.Code+": ") {
		return nil, err
	}
	return f, nil
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
