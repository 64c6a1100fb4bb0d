// Package quota owns the GPU limits and holdings of accounts and teams. Each holder has one row, updated in the
// transaction that places or ends an attempt. The GPUs of placed engines count too, for their owner and for the team of
// their project. They are counted from the engines' rows in the table work, and the transaction that places an engine
// locks the holders' rows. The package promises that concurrent reservations never exceed a holder's limit; a constraint
// of the table enforces this too. If a limit is lowered below the GPUs held, no attempt is ended, but every new
// reservation fails.
package quota

// Kind is a kind of holder.
type Kind string

// The kinds of holders. Ids are unique across both kinds.
const (
	User Kind = "user"
	Team Kind = "team"
)

// Holder identifies the quotas that an attempt or an engine uses: the owner's quota and, if the project belongs to a
// team, the team's quota.
type Holder struct{ UserID, TeamID string }

// Account is the limit and the holdings of a holder.
type Account struct {
	Limit  int
	Held   int
	Queued int // GPUs that queued jobs request
}

// Available returns how many more GPUs could be placed now.
func (a Account) Available() int { return max(0, a.Limit-a.Held) }

// Admits reports whether a request is within the limit. GPUs that are held now do not matter, because the job can wait
// for them.
func (a Account) Admits(gpus int) bool { return gpus <= a.Limit }

// Ledger reads and writes the holdings.
type Ledger struct {
	// Default is the limit of an account without its own limit. TeamDefault is the limit of a team without its own limit.
	Default     int
	TeamDefault int
}

func (l Ledger) otherwise(k Kind) int {
	if k == Team {
		return l.TeamDefault
	}
	return l.Default
}
