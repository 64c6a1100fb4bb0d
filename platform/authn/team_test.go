package authn_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// lead returns a caller who is a member of two teams and leads one of them. LeadOf also contains a third team, and
// the caller is not a member of it.
func lead() *authn.Caller {
	return &authn.Caller{
		Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator,
		Teams: []string{"team_m", "team_l"}, LeadOf: []string{"team_l", "team_x"},
	}
}

func TestScope_RequireTeam(t *testing.T) {
	t.Parallel()
	admin := &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleAdmin}
	ingest := &authn.Caller{Kind: authn.KindIngest, RunID: "run_1", Teams: []string{"team_l"}, LeadOf: []string{"team_l"}}
	cases := map[string]struct {
		who         *authn.Caller
		team        string
		sees, leads bool
	}{
		"lead":             {lead(), "team_l", true, true},
		"member":           {lead(), "team_m", true, false},
		"lead, not member": {lead(), "team_x", false, false},
		"stranger":         {lead(), "team_o", false, false},
		"no team":          {lead(), "", false, false},
		"admin":            {admin, "team_o", true, true},
		"not a user":       {ingest, "team_l", false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.sees, scope(c.who, authn.NeedRead).SeesTeam(c.team))
			require.Equal(t, c.sees, scope(c.who, authn.NeedRead).RequireTeam(c.team) == nil, "reading does not require leading the team")
			manage := scope(c.who, authn.NeedManage)
			require.Equal(t, c.sees, manage.SeesTeam(c.team), "a higher need does not restrict reading")
			err := manage.RequireTeam(c.team)
			require.Equal(t, !c.leads, fault.Is(err, fault.Forbidden), "%v", err)
			if err != nil {
				require.Equal(t, authn.CodeNotLead, fault.From(err).Code)
			}
			none := scope(c.who, authn.NeedNone)
			require.False(t, none.SeesTeam(c.team))
			require.Error(t, none.RequireTeam(c.team), "a method that declares no need has no access")
		})
	}
}

func TestScope_teamLists(t *testing.T) {
	t.Parallel()
	s := scope(lead(), authn.NeedManage)
	require.Equal(t, []string{"team_l", "team_m"}, s.TeamsRead)
	require.Equal(t, []string{"team_l"}, s.TeamsLed, "only a member of a team can lead it")
	none := scope(lead(), authn.NeedNone)
	require.NotNil(t, none.TeamsRead, "comparing with a NULL array yields NULL")
	require.NotNil(t, none.TeamsLed)
	require.Empty(t, append(none.TeamsRead, none.TeamsLed...))
}

func TestSigner_Sign_teams(t *testing.T) {
	t.Parallel()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	signer := authn.NewSigner(clk, func() string { return "tok_1" }, func() authn.SigningKey { return key })
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator}
	for i := range authn.MaxTeams {
		c.Teams = append(c.Teams, fmt.Sprintf("team_%026d", i))
	}
	c.LeadOf = c.Teams
	for i := range authn.MaxProjects + 1 {
		c.Projects = append(c.Projects, authn.ProjectRole{Project: fmt.Sprintf("prj_%026d", i), Role: authn.ProjectViewer})
	}
	token, _, err := signer.Sign(c)
	require.NoError(t, err)
	got, _, err := authn.NewVerifier(clk, authn.StaticKeys(clk, key.Public())).Verify(t.Context(), token)
	require.NoError(t, err, "the largest caller fits into a token of %d bytes", len(token))
	require.Equal(t, c.Teams, got.Teams)
	require.Equal(t, c.LeadOf, got.LeadOf)

	c.Teams = append(c.Teams, "team_more")
	_, _, err = signer.Sign(c)
	require.ErrorContains(t, err, "101 teams")
	_, _, err = signer.Sign(&authn.Caller{Kind: authn.KindNone, Teams: []string{"team_1"}})
	require.ErrorContains(t, err, "must not have a subject")
}
