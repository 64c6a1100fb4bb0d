// Package admission checks submissions against a sequence of gates, cheap ones first. The first gate that refuses ends
// the check, and the refusal names it. Gates write nothing, and lookups for later gates are not made, except that the
// registry returns all that it has for a submission in one call.
//
// Each gate has its own file and is a pure function of a Draft, which holds the submission and the lookups so far
// (recipe.go also checks the hyperparameters; capacity.go holds quota and hardware). inputs.go defines the lookups
// and the order of the gates.
package admission

import (
	"context"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// The names of the gates, in order. A refusal's code is one of them.
const (
	Dialect     = "dialect"
	Environment = "environment"
	Package     = archive.GatePackage // also refuses as archive.GateSensitive, which checks the same content
	Entrypoint  = "entrypoint_override"
	Recipe      = "recipe_handshake"
	Hparams     = "hparams"
	Project     = "project"
	Bindings    = "bindings"
	Image       = "image_registry"
	Quota       = "quota"
	Hardware    = "hardware"
)

// Draft is a submission that passes through the gates, with the results of their lookups.
type Draft struct {
	API    string
	Spec   jobspec.Spec
	Caller *authn.Caller

	found *jobspec.Resolved // what the registry has for the spec, nil until a gate needs it

	Package *jobspec.Object // the package that the command runs in, nil for none
	Recipe  *jobspec.Recipe // the catalog's version that the spec names
	Project *ProjectFacts   // the project that the job belongs to
	Inputs  *jobspec.Inputs // what the bindings resolve to
	Pools   map[string]PoolFacts
	Account quota.Account
	Team    *quota.Account // the project's team, nil if it has none
}

// Gate checks a draft. Check may do lookups first; a refusal is a fault with the gate's name as its code.
type Gate struct {
	Name  string
	Check func(ctx context.Context, d *Draft) error
	// Needs reports whether earlier gates found what this one requires; nil if it requires only the submission.
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

// Status is the result of a gate.
type Status string

// The results of gates. Skip means that an earlier gate did not find what this gate needs.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Verdict is the result of one gate for a draft.
type Verdict struct {
	Gate    string
	Status  Status
	Refusal *fault.Error
}

// RunAll passes a draft through every gate, even after a refusal. It returns an error only if a lookup fails.
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
				// This gate's lookup refused in the name of a later gate: skip this one and report the refusal there.
				v.Status, early[refusal.Code] = Skip, refusal
			case refusal != nil:
				v.Status, v.Refusal = Fail, refusal
			}
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// refused separates refusals, whose text begins with the name of their gate, from lookup errors.
func refused(err error) (*fault.Error, error) {
	if err == nil {
		return nil, nil //nolint:nilnil // a gate that passes has neither
	}
	f := fault.From(err)
	if f.Code == "" || !strings.HasPrefix(f.Text(), f.Code+": ") {
		return nil, err
	}
	return f, nil
}

// Refuse returns a 400 fault that names its gate.
func Refuse(gate, format string, args ...any) *fault.Error {
	return refuseAs(fault.Refused, gate, format, args...)
}

func refuseAs(kind fault.Kind, gate, format string, args ...any) *fault.Error {
	return fault.New(kind, gate, gate+": "+format, args...)
}

// checkDialect refuses submissions in another dialect.
func checkDialect(d *Draft) error {
	if d.API != jobspec.Dialect {
		return Refuse(Dialect, "this control plane accepts %s, the submission uses %s", jobspec.Dialect, d.API)
	}
	return nil
}
