package authn

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
)

// Reach is a digest of a caller's rights. Two callers with the same Reach have the same access in every service.
type Reach [sha256.Size]byte

// UnverifiedCaller returns the caller in a token without verifying the signature. It is only for tokens that this
// process has just received from the auth service, and must not be used to grant access.
func UnverifiedCaller(token string) (*Caller, error) {
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

// RightsDigestOf returns the Reach of the caller in a token. Like UnverifiedCaller it does not verify the signature,
// so it is only for comparing tokens received from the auth service.
func RightsDigestOf(token string) (Reach, error) {
	claimed, err := UnverifiedCaller(token)
	if err != nil {
		return Reach{}, err
	}
	// Clear the claims that never affect access. All other claims count, including claims that are added in the future.
	claimed.Username, claimed.SessionID, claimed.ClientAddr, claimed.Epoch = "", "", "", 0
	slices.Sort(claimed.Teams)
	slices.Sort(claimed.LeadOf)
	slices.SortFunc(claimed.Projects, func(a, b ProjectRole) int { return cmp.Compare(a.Project, b.Project) })
	canonical, err := json.Marshal(struct {
		*Caller
		Of string
	}{claimed, claimed.Subject})
	if err != nil {
		return Reach{}, fmt.Errorf("encode the claims of a caller token: %w", err)
	}
	return sha256.Sum256(canonical), nil
}
