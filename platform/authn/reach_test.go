package authn_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
)

func (b harness) reach(t *testing.T, change func(*authn.Caller)) authn.Reach {
	t.Helper()
	c := &authn.Caller{
		Kind: authn.KindUser, Subject: "usr_1", Username: "ada", SessionID: "ses_1", Role: authn.RoleOperator, ClientAddr: "203.0.113.7", Epoch: 1,
		Teams: []string{"tea_1", "tea_2"}, LeadOf: []string{"tea_1"},
		Projects: []authn.ProjectRole{{Project: "prj_1", Role: authn.ProjectViewer}, {Project: "prj_2", Role: authn.ProjectEditor}},
	}
	change(c)
	token, _, err := b.signer.Sign(c)
	require.NoError(t, err)
	got, err := authn.RightsDigestOf(token)
	require.NoError(t, err)
	return got
}

func TestRightsDigestOf_dependsOnRightsOnly(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	before := b.reach(t, func(*authn.Caller) {})
	b.clk.Advance(time.Second)
	for name, change := range map[string]func(*authn.Caller){
		"no change": func(*authn.Caller) {},
		"names": func(c *authn.Caller) {
			c.Username, c.SessionID, c.ClientAddr, c.Epoch = "eve", "ses_2", "203.0.113.8", 2
		},
		"order": func(c *authn.Caller) { slices.Reverse(c.Projects); slices.Reverse(c.Teams) },
	} {
		require.Equal(t, before, b.reach(t, change), name)
	}
	for name, change := range map[string]func(*authn.Caller){
		"other user":        func(c *authn.Caller) { c.Subject = "usr_2" },
		"role":              func(c *authn.Caller) { c.Role = authn.RoleAdmin },
		"left a project":    func(c *authn.Caller) { c.Projects = c.Projects[:1] },
		"role in a project": func(c *authn.Caller) { c.Projects[1].Role = authn.ProjectViewer },
		"left a team":       func(c *authn.Caller) { c.Teams = c.Teams[:1] },
		"no longer lead":    func(c *authn.Caller) { c.LeadOf = nil },
		"projects were cut": func(c *authn.Caller) { c.ProjectsCut = true },
		"new password due":  func(c *authn.Caller) { c.PasswordDrawn = true },
		"joined a project": func(c *authn.Caller) {
			c.Projects = append(c.Projects, authn.ProjectRole{Project: "prj_3", Role: "viewer"})
		},
	} {
		require.NotEqual(t, before, b.reach(t, change), name)
	}
}

func TestRightsDigestOf_invalidToken(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "signed", "a.b.c"} {
		got, err := authn.RightsDigestOf(token)
		require.Error(t, err, token)
		require.Zero(t, got)
	}
}
