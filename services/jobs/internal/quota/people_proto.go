package quota

import (
	"context"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// subject is a holder with the name shown to users: a username or a team's key.
type subject struct{ id, name string }

// AuthPeople looks up accounts and teams in auth.
type AuthPeople struct {
	Client authpeerv1.AccountPeerServiceClient
}

// named finds a holder by its name. An id is not accepted in place of a name.
func (p *AuthPeople) named(ctx context.Context, k Kind, name string) (subject, error) {
	var s subject
	if k == Team {
		t, err := p.Client.GetTeam(ctx, &authpeerv1.GetTeamRequest{Team: name})
		if err != nil {
			return s, err
		}
		s = subject{id: t.GetId(), name: t.GetKey()}
	} else {
		a, err := p.Client.GetAccount(ctx, &authpeerv1.GetAccountRequest{Account: name})
		if err != nil {
			return s, err
		}
		s = subject{id: a.GetId(), name: a.GetUsername()}
	}
	if s.name != name {
		return s, fault.Absentf(string(k), name)
	}
	return s, nil
}

// list lists the holders of a kind by name.
func (p *AuthPeople) list(ctx context.Context, k Kind, pg request.Page) ([]subject, error) {
	var list []subject
	if k == Team {
		out, err := p.Client.ListTeams(ctx, &authpeerv1.ListTeamsRequest{Limit: int32(pg.FetchLimit()), Offset: int32(pg.Offset)})
		for _, t := range out.GetTeams() {
			list = append(list, subject{id: t.GetId(), name: t.GetKey()})
		}
		return list, err
	}
	out, err := p.Client.ListAccounts(ctx, &authpeerv1.ListAccountsRequest{Limit: int32(pg.FetchLimit()), Offset: int32(pg.Offset)})
	for _, a := range out.GetAccounts() {
		list = append(list, subject{id: a.GetId(), name: a.GetUsername()})
	}
	return list, err
}
