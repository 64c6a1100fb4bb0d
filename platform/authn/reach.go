package authn

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
)

// Reach stands for what a caller may reach: two callers with the same one are judged alike by every service.
type Reach [sha256.Size]byte

// ReachOf is the reach that a caller token claims. It checks no signature, so it is for comparing what auth
// itself has answered, and nothing may be granted by it.
func ReachOf(token string) (Reach, error) {
	payload, _, err := CallerFormat().open(token)
	if err != nil {
		return Reach{}, fmt.Errorf("read a caller token: %w", err)
	}
	var claimed struct {
		Caller
		Of string `json:"sub"`
	}
	if err := json.Unmarshal(payload, &claimed); err != nil {
		return Reach{}, fmt.Errorf("read the claims of a caller token: %w", err)
	}
	// Everything counts but what never decides: a claim that is new some day counts until it is named here.
	claimed.Username, claimed.SessionID, claimed.ClientAddr, claimed.Epoch = "", "", "", 0
	slices.Sort(claimed.Teams)
	slices.Sort(claimed.LeadOf)
	slices.SortFunc(claimed.Projects, func(a, b ProjectRole) int { return cmp.Compare(a.Project, b.Project) })
	canonical, err := json.Marshal(claimed)
	if err != nil {
		return Reach{}, fmt.Errorf("write the claims of a caller token: %w", err)
	}
	return sha256.Sum256(canonical), nil
}
