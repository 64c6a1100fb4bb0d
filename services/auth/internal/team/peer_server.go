package team

import (
	"context"
	"errors"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// PeerServer implements AccountPeerService.
type PeerServer struct {
	authpeerv1.UnimplementedAccountPeerServiceServer

	Pool pg.Querier
}

// person is what other services see of an account in a list.
type person struct {
	ID, Username string
	Disabled     bool
}

// GetAccount implements AccountPeerService. A value that looks like an id is looked up only as an id, so that a
// username cannot impersonate another account.
func (s *PeerServer) GetAccount(ctx context.Context, in *authpeerv1.GetAccountRequest) (*authpeerv1.Account, error) {
	var a account.Account
	var err error
	if id.Check(id.User, in.GetAccount()) == nil {
		a, err = account.ByID(ctx, s.Pool, in.GetAccount())
	} else {
		a, err = account.ByUsername(ctx, s.Pool, in.GetAccount())
	}
	if errors.Is(err, account.ErrUnknown) {
		return nil, fault.Absentf("user", in.GetAccount())
	}
	if err != nil {
		return nil, err
	}
	teams, _, err := account.Teams(ctx, s.Pool, a.ID)
	if err != nil {
		return nil, err
	}
	return &authpeerv1.Account{Id: a.ID, Username: a.Username, Disabled: a.DisabledAt != nil, TeamIds: teams, Role: a.Role}, nil
}

// GetTeam implements AccountPeerService.
func (s *PeerServer) GetTeam(ctx context.Context, in *authpeerv1.GetTeamRequest) (*authpeerv1.Team, error) {
	t, err := find(ctx, s.Pool, in.GetTeam())
	if err != nil {
		return nil, err
	}
	return &authpeerv1.Team{Id: t.ID, Key: t.Key}, nil
}

// ListAccounts implements AccountPeerService.
func (s *PeerServer) ListAccounts(ctx context.Context, in *authpeerv1.ListAccountsRequest) (*authpeerv1.ListAccountsResponse, error) {
	people, err := accounts(ctx, s.Pool, in.GetLimit(), in.GetOffset())
	if err != nil {
		return nil, err
	}
	out := &authpeerv1.ListAccountsResponse{}
	for _, p := range people {
		out.Accounts = append(out.Accounts, &authpeerv1.Account{Id: p.ID, Username: p.Username, Disabled: p.Disabled})
	}
	return out, nil
}

// ListTeams implements AccountPeerService.
func (s *PeerServer) ListTeams(ctx context.Context, in *authpeerv1.ListTeamsRequest) (*authpeerv1.ListTeamsResponse, error) {
	teams, err := all(ctx, s.Pool, in.GetLimit(), in.GetOffset())
	if err != nil {
		return nil, err
	}
	out := &authpeerv1.ListTeamsResponse{}
	for _, t := range teams {
		out.Teams = append(out.Teams, &authpeerv1.Team{Id: t.ID, Key: t.Key})
	}
	return out, nil
}

// ListProjectRoles implements AccountPeerService.
func (s *PeerServer) ListProjectRoles(ctx context.Context, in *authpeerv1.ListProjectRolesRequest) (*authpeerv1.ListProjectRolesResponse, error) {
	members, err := account.AllMemberships(ctx, s.Pool, in.GetAccountId())
	if err != nil {
		return nil, err
	}
	out := &authpeerv1.ListProjectRolesResponse{}
	for _, m := range members {
		out.Roles = append(out.Roles, &authpeerv1.ProjectRole{ProjectId: m.ProjectID, Role: m.Role})
	}
	return out, nil
}
