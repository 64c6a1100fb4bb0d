// Package admission checks submissions against a sequence of gates, cheap ones first. The first gate that refuses
// ends the check, and the refusal names it. Gates write nothing. No lookup is made for the gates after that one, except
// that one call to the registry returns everything that any gate needs from it.
//
// Each gate has its own file and is a pure function of a Draft, which holds the submission and the lookups so far
// (recipe_lock.go also checks the hyperparameters; capacity.go holds quota and hardware). inputs.go defines the lookups
// and the order of the gates.
package admission

import (
	"context"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// The names of the gates, in order. They are the codes of refusals.
const (
	Dialect     = "dialect"
	Environment = "environment"
	Package     = archive.GatePackage // also refuses with archive.GateSensitive, because the registry checks both at once
	Entrypoint  = "entrypoint_override"
	Recipe      = "recipe_handshake"
	Hparams     = "hparams"
	Project     = "project"
	Bindings    = "bindings"
	Image       = "image_registry"
	Quota       = "quota"
	Hardware    = "hardware"
	Isolation   = fleet.CodeIsolation
	Containers  = "containers"
)

// Draft is a submission with the results of the lookups that the gates have made so far.
type Draft struct {
	API    string
	Spec   jobspec.Spec
	Caller *authn.Caller

	// Inherited is set if the job continues from data of a protected run. The job is then protected too.
	Inherited *Protection

	found *jobspec.Resolved // the registry's objects for the spec; nil until a gate needs them

	Package *jobspec.Object // the package in which the command runs, or nil
	Recipe  *jobspec.Recipe // the recipe version that the spec refers to
	Project *ProjectFacts   // the project that the job belongs to
	Inputs  *jobspec.Inputs // the objects to which the bindings refer
	Pools   map[string]PoolFacts
	Account quota.Account
	Team    *quota.Account // the project's team, or nil
}

// Protection describes a protected run.
type Protection struct {
	Datasets []string // ids of the protected datasets
}

// Gate checks a draft. Check may make lookups first. A refusal is a fault whose code is the gate's name.
type Gate struct {
	Name  string
	Check func(ctx context.Context, d *Draft) error
	// Needs reports whether earlier gates found what this gate requires. It is nil if the gate requires only the
	// submission.
	Needs func(d *Draft) bool
}

// Run applies the gates to a draft, in order, and returns the first refusal.
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

// The results of gates. Skip means that the gate could not run, because an earlier gate did not find what this one
// needs.
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

// RunAll applies every gate to a draft, even after a refusal. It returns an error only if a lookup fails.
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
				// The refusal carries the code of a later gate: skip this gate and report the refusal at the later one.
				v.Status, early[refusal.Code] = Skip, refusal
			case refusal != nil:
				v.Status, v.Refusal = Fail, refusal
			}
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// refused separates a refusal, whose text begins with the name of its gate, from the error of a failed lookup.
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

// checkDialect refuses a submission that uses another dialect.
func checkDialect(d *Draft) error {
	if d.API != jobspec.Dialect {
		return Refuse(Dialect, "this control plane accepts %s, the submission uses %s", jobspec.Dialect, d.API)
	}
	return nil
}
