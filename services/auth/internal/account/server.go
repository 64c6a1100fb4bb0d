package account

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Server implements UserService.
type Server struct {
	authv1.UnimplementedUserServiceServer

	Users     *Users
	Transfers *Transfers
	Once      *idempotency.Once
}

// CreateUser implements UserService. A repeated request is recognized by a hash of the request without its password,
// because an unsalted hash of a password must not be stored.
func (s *Server) CreateUser(ctx context.Context, in *authv1.CreateUserRequest) (*authv1.CreateUserResponse, error) {
	const method = authv1.UserService_CreateUser_FullMethodName
	body, out := withoutPassword(in), &authv1.CreateUserResponse{}
	if done, err := s.Once.Replay(ctx, method, body, out); done || err != nil {
		return out, err
	}
	pass := secret.New(in.GetPassword())
	hash, shown, err := s.password(ctx, pass)
	if err != nil {
		return nil, err
	}
	made := false
	u := User{Username: in.GetUsername(), Role: roles()[in.GetRole()], Email: in.Email, DisplayName: in.DisplayName}
	err = s.Once.Do(ctx, method, body, out, func(ctx context.Context, tx pgx.Tx) error {
		created, err := s.Users.Create(ctx, tx, u, hash, shown != nil)
		if err != nil {
			return err
		}
		made = true
		idempotency.Set(out, &authv1.CreateUserResponse{User: userToProto(created)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if made {
		out.Password = shown
	}
	return out, nil
}

// password hashes the given password. If none is given, it generates a password and returns that in shown.
func (s *Server) password(ctx context.Context, given secret.String) (hash string, shown *string, err error) {
	if s.Users.Issuer != "" {
		return "", nil, PasswordsOff()
	}
	if given.IsZero() {
		if given, err = draw(s.Users.Rand); err != nil {
			return "", nil, err
		}
		text := given.Reveal()
		shown = &text
	}
	hash, err = Hash(ctx, s.Users.Hasher, given)
	return hash, shown, err
}

func withoutPassword(in *authv1.CreateUserRequest) *authv1.CreateUserRequest {
	body, _ := proto.Clone(in).(*authv1.CreateUserRequest)
	if body.Password != nil {
		body.Password = new("")
	}
	return body
}

// ListUsers implements UserService. The users are ordered by username.
func (s *Server) ListUsers(ctx context.Context, in *authv1.ListUsersRequest) (*authv1.ListUsersResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	users, total, err := listUsers(ctx, s.Users.Pool, in.GetQ(), p)
	if err != nil {
		return nil, err
	}
	if err := request.SetTotal(ctx, total); err != nil {
		return nil, err
	}
	users, more := request.CutPage(users, p)
	out := &authv1.ListUsersResponse{}
	for _, u := range users {
		out.Users = append(out.Users, userToProto(u))
	}
	return out, request.SetMore(ctx, more)
}

// GetUser implements UserService.
func (s *Server) GetUser(ctx context.Context, in *authv1.GetUserRequest) (*authv1.User, error) {
	if err := request.ID(id.User, "user_id", in.GetUserId()); err != nil {
		return nil, err
	}
	u, err := getUser(ctx, s.Users.Pool, in.GetUserId())
	if err != nil {
		return nil, err
	}
	return userToProto(u), nil
}

// UpdateUser implements UserService.
func (s *Server) UpdateUser(ctx context.Context, in *authv1.UpdateUserRequest) (*authv1.User, error) {
	if err := request.ID(id.User, "user_id", in.GetUserId()); err != nil {
		return nil, err
	}
	c := Change{Email: in.Email, DisplayName: in.DisplayName, Disabled: in.Disabled}
	if role, given := roles()[in.GetRole()]; given {
		c.Role = &role
	}
	u, err := s.Users.Update(ctx, in.GetUserId(), c)
	if err != nil {
		return nil, err
	}
	return userToProto(u), nil
}

// ResetPassword implements UserService.
func (s *Server) ResetPassword(ctx context.Context, in *authv1.ResetPasswordRequest) (*authv1.ResetPasswordResponse, error) {
	const method = authv1.UserService_ResetPassword_FullMethodName
	if err := request.ID(id.User, "user_id", in.GetUserId()); err != nil {
		return nil, err
	}
	out := &authv1.ResetPasswordResponse{}
	if done, err := s.Once.Replay(ctx, method, in, out); done || err != nil {
		return out, err
	}
	hash, shown, err := s.password(ctx, secret.String{})
	if err != nil {
		return nil, err
	}
	reset := false
	err = s.Once.Do(ctx, method, in, out, func(ctx context.Context, tx pgx.Tx) error {
		reset = true
		return s.Users.Reset(ctx, tx, in.GetUserId(), hash)
	})
	if err != nil {
		return nil, err
	}
	if reset {
		out.Password = shown
	}
	return out, nil
}

// ListOwned implements UserService.
func (s *Server) ListOwned(ctx context.Context, in *authv1.ListOwnedRequest) (*authv1.ListOwnedResponse, error) {
	if err := request.ID(id.User, "user_id", in.GetUserId()); err != nil {
		return nil, err
	}
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	owned, err := s.Transfers.Count(ctx, in.GetUserId())
	if err != nil {
		return nil, err
	}
	if err := request.SetTotal(ctx, len(owned)); err != nil {
		return nil, err
	}
	owned, more := request.CutPage(owned[min(p.Offset, len(owned)):], p)
	return ownedToProto(owned), request.SetMore(ctx, more)
}

// TransferOwned implements UserService.
func (s *Server) TransferOwned(ctx context.Context, in *authv1.TransferOwnedRequest) (*authv1.ListOwnedResponse, error) {
	if err := request.ID(id.User, "user_id", in.GetUserId()); err != nil {
		return nil, err
	}
	if err := request.ID(id.User, "to_user_id", in.GetToUserId()); err != nil {
		return nil, err
	}
	moved, err := s.Transfers.Transfer(ctx, in.GetUserId(), in.GetToUserId())
	if err != nil {
		return nil, err
	}
	return ownedToProto(moved), nil
}

func ownedToProto(owned []Owned) *authv1.ListOwnedResponse {
	out := &authv1.ListOwnedResponse{}
	for _, o := range owned {
		out.Owned = append(out.Owned, &authv1.Owned{Kind: o.Kind, Count: int32(o.Count)})
	}
	return out
}

func ownedFromProto(in *commonpeerv1.OwnedCounts) []Owned {
	owned := make([]Owned, 0, len(in.GetCounts()))
	for _, c := range in.GetCounts() {
		owned = append(owned, Owned{Kind: c.GetKind(), Count: int(c.GetCount())})
	}
	return owned
}

func roles() map[authv1.UserRole]string {
	return map[authv1.UserRole]string{authv1.UserRole_USER_ROLE_ADMIN: RoleAdmin, authv1.UserRole_USER_ROLE_OPERATOR: RoleOperator}
}

func userToProto(u User) *authv1.User {
	return &authv1.User{
		Id: u.ID, Username: u.Username, Role: u.Role, Email: u.Email, DisplayName: u.DisplayName, Login: u.Login,
		CreatedAt: timestamppb.New(u.CreatedAt), DisabledAt: request.OptionalTime(u.DisabledAt), LastLoginAt: request.OptionalTime(u.LastLoginAt),
	}
}
