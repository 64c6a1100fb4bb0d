// Package quota owns what each account holds: one row an account, which the transaction that places
// or ends an attempt changes with it. It promises that an account never holds more GPUs than its
// limit, whoever reserves at the same time; the table's own check says so too.
package quota

// Account is what an account may hold and does hold.
type Account struct {
	Limit  int
	Held   int
	Queued int // GPUs that admitted, waiting jobs ask for
}

// Available is what could be placed now.
func (a Account) Available() int { return max(0, a.Limit-a.Held) }

// Admits says whether a demand could ever be held; waiting for others to end is not refused.
func (a Account) Admits(gpus int) bool { return gpus <= a.Limit }
