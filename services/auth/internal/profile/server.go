package profile

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/emptypb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/project"
)

// Server implements ProfileService. Every method reads and changes the caller's own account.
type Server struct {
	authv1.UnimplementedProfileServiceServer

	Pool      *pgxpool.Pool
	Passwords *Passwords
	Sessions  sessions
	Audit     *audit.Log
}

// GetProfile implements ProfileService.
func (s *Server) GetProfile(ctx context.Context, _ *authv1.GetProfileRequest) (*authv1.Profile, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	p, err := get(ctx, s.Pool, c.Subject)
	if err != nil {
		return nil, err
	}
	return s.toProto(ctx, c, p)
}

// UpdateProfile implements ProfileService.
func (s *Server) UpdateProfile(ctx context.Context, in *authv1.UpdateProfileRequest) (*authv1.Profile, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	change := Change{DisplayName: in.DisplayName, Email: in.Email, Locale: in.Locale, TZ: in.Tz, Theme: themeFromProto(in.GetTheme())}
	if in.DefaultProject != nil {
		p, err := s.readable(ctx, c, in.GetDefaultProject())
		if err != nil {
			return nil, err
		}
		change.ProjectID = &p.ID
	}
	var after Profile
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		before, err := lock(ctx, tx, c.Subject)
		if err != nil {
			return err
		}
		if after, err = before.apply(change); err != nil {
			return err
		}
		was, is := differences(before, after)
		if len(is) == 0 {
			return nil
		}
		if err := save(ctx, tx, after); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			Action: "profile.update", TargetKind: account.SubjectKind, TargetID: c.Subject, Before: was, After: is,
		})
	})
	if err != nil {
		return nil, err
	}
	return s.toProto(ctx, c, after)
}

// readable returns a project that the caller may read. Hidden and unknown projects give the same error.
func (s *Server) readable(ctx context.Context, c *authn.Caller, name string) (project.Project, error) {
	none := fault.New(fault.Refused, "project", "no such project: %s", name)
	p, err := project.Find(ctx, s.Pool, name)
	switch {
	case fault.Is(err, fault.Absent):
		return p, none
	case err != nil:
		return p, err
	case c.Reads().Sees("", p.ID, p.Visibility):
		return p, nil
	case !c.ProjectsCut:
		return p, none
	}
	members, err := account.AllMemberships(ctx, s.Pool, c.Subject)
	if err != nil {
		return p, err
	}
	if !slices.ContainsFunc(members, func(m account.Membership) bool { return m.ProjectID == p.ID }) {
		return p, none
	}
	return p, nil
}

// ChangePassword implements ProfileService.
func (s *Server) ChangePassword(ctx context.Context, in *authv1.ChangePasswordRequest) (*emptypb.Empty, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.Passwords.Change(ctx, c, secret.New(in.GetCurrentPassword()), secret.New(in.GetNewPassword()))
}

// toProto converts a profile to proto. It omits the default project if the caller may no longer read that project.
func (s *Server) toProto(ctx context.Context, c *authn.Caller, p Profile) (*authv1.Profile, error) {
	out := &authv1.Profile{
		Username: p.Username, Role: p.Role, DisplayName: p.DisplayName, Email: p.Email, Locale: p.Locale, Tz: p.TZ, Theme: p.Theme,
	}
	if p.ProjectID == nil {
		return out, nil
	}
	found, err := s.readable(ctx, c, *p.ProjectID)
	switch {
	case fault.Is(err, fault.Refused):
	case err != nil:
		return nil, err
	default:
		out.DefaultProject = &found.Key
	}
	return out, nil
}

func themeFromProto(t authv1.Theme) *string {
	if t == authv1.Theme_THEME_UNSPECIFIED {
		return nil
	}
	name := strings.ToLower(strings.TrimPrefix(t.String(), "THEME_"))
	return &name
}
