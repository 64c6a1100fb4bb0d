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

// Claimed is the caller that a token claims to carry. It checks no signature, so it is for what auth itself has
// answered, and nothing may be granted by it.
func Claimed(token string) (*Caller, error) {
	payload, _, err := CallerFormat().open(token)
	if err != nil {
		return nil, fmt.Errorf("read a caller token: %w", err)
	}
	var claimed struct {
		Caller
		Of string `json:"sub"`
	}
	if err := json.Unmarshal(payload, &claimed); err != nil {
		return nil, fmt.Errorf("read the claims of a caller token: %w", err)
	}
	claimed.Subject = claimed.Of
	return &claimed.Caller, nil
}

// ReachOf is the reach that a caller token claims; as Claimed it is for comparing what auth itself has answered.
func ReachOf(token string) (Reach, error) {
	claimed, err := Claimed(token)
	if err != nil {
		return Reach{}, err
	}
	// Everything counts but what never decides: a claim that is new some day counts until it is named here.
	claimed.Username, claimed.SessionID, claimed.ClientAddr, claimed.Epoch = "", "", "", 0
	slices.Sort(claimed.Teams)
	slices.Sort(claimed.LeadOf)
	slices.SortFunc(claimed.Projects, func(a, b ProjectRole) int { return cmp.Compare(a.Project, b.Project) })
	canonical, err := json.Marshal(struct {
		*Caller
		Of string
	}{claimed, claimed.Subject})
	if err != nil {
		return Reach{}, fmt.Errorf("write the claims of a caller token: %w", err)
	}
	return sha256.Sum256(canonical), nil
}
