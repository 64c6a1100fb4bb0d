// Package quota owns what accounts and teams may hold and do hold: one row a holder, which the transaction
// that places or ends an attempt changes with it. It promises that none ever comes to hold more GPUs than its
// limit, whoever reserves at the same time; the table's own check says so too. A limit that is lowered under
// what is held ends nothing and lets nothing new in.
package quota

// Kind is what may hold GPUs.
type Kind string

// The kinds. No two holders share an id, whatever their kinds.
const (
	User Kind = "user"
	Team Kind = "team"
)

// Holder is whom an attempt counts against: its owner and, where its project belongs to a team, that one too.
type Holder struct{ UserID, TeamID string }

// Account is what a holder may hold and does hold.
type Account struct {
	Limit  int
	Held   int
	Queued int // GPUs that admitted, waiting jobs ask for
}

// Available is what could be placed now.
func (a Account) Available() int { return max(0, a.Limit-a.Held) }

// Admits says whether a demand could ever be held; waiting for others to end is not refused.
func (a Account) Admits(gpus int) bool { return gpus <= a.Limit }

// Ledger reads and writes what is held.
type Ledger struct {
	// Default is the limit of an account without one of its own, TeamDefault that of a team.
	Default     int
	TeamDefault int
}

func (l Ledger) otherwise(k Kind) int {
	if k == Team {
		return l.TeamDefault
	}
	return l.Default
}
