package account

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Create creates an account in tx. It returns a conflict if the username exists, ignoring case, and an error of kind
// Invalid if the username looks like an id. The parameter drawn states whether the password was generated.
func (s *Users) Create(ctx context.Context, tx pgx.Tx, u User, hash string, drawn bool) (User, error) {
	if id.Check(id.User, strings.ToLower(u.Username)) == nil {
		return User{}, fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should not look like an id", "username"))
	}
	u.ID, u.Login, u.CreatedAt = s.IDs.New(id.User), LoginPassword, s.Clock.Now()
	if u.DisplayName != nil {
		if err := CheckName("display_name", *u.DisplayName); err != nil {
			return User{}, err
		}
	}
	made, err := insertUser(ctx, tx, u, hash, drawn)
	if err != nil {
		return User{}, err
	}
	if !made {
		return User{}, fault.New(fault.Conflict, "user_exists", "user %s already exists", u.Username)
	}
	return u, s.Audit.Record(ctx, tx, audit.Entry{
		Action: "account.create", TargetKind: SubjectKind, TargetID: u.ID,
		After: map[string]any{"username": u.Username, "role": u.Role, "email": u.Email, "display_name": u.DisplayName, "password_drawn": drawn},
	})
}

// Change is an admin's change of an account. Nil fields stay unchanged. An empty Email or DisplayName removes it.
type Change struct {
	Role, Email, DisplayName *string
	Disabled                 *bool
}

// Update changes an account. It returns a conflict if the change demotes or disables an enabled admin and no other
// enabled admin can sign in. Update locks all admin rows in the order of their ids. Of two concurrent demotions, the
// second therefore sees the result of the first.
func (s *Users) Update(ctx context.Context, userID string, c Change) (User, error) {
	var after User
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		others, err := lockAdmins(ctx, tx, userID, s.Issuer)
		if err != nil {
			return err
		}
		before, err := lockUser(ctx, tx, userID)
		if err != nil {
			return err
		}
		if after, err = s.apply(before, c); err != nil {
			return err
		}
		if before.admin() && !after.admin() && others == 0 {
			return fault.New(fault.Conflict, "last_admin", "%s is the last enabled admin; make another user an admin first", before.Username)
		}
		return s.save(ctx, tx, before, after)
	})
	return after, err
}

// apply returns the account with the change applied.
func (s *Users) apply(u User, c Change) (User, error) {
	if c.Role != nil {
		u.Role = *c.Role
	}
	if ChangesText(u.Email, c.Email) {
		if u.Login == LoginOIDC {
			return u, EmailOfProvider()
		}
		u.Email = Filled(c.Email)
	}
	if c.DisplayName != nil {
		if err := CheckName("display_name", *c.DisplayName); err != nil && *c.DisplayName != "" {
			return u, err
		}
		u.DisplayName = Filled(c.DisplayName)
	}
	switch {
	case c.Disabled == nil || *c.Disabled == (u.DisabledAt != nil):
	case *c.Disabled:
		now := s.Clock.Now()
		u.DisabledAt = &now
	default:
		u.DisabledAt = nil
	}
	return u, nil
}

// Filled returns a text that is stored as absent if it is empty.
func Filled(s *string) *string {
	if s == nil || *s == "" {
		return nil
	}
	return s
}

// ChangesText reports whether a requested text differs from the stored one. A nil request changes nothing, and an empty
// one removes the text.
func ChangesText(stored, requested *string) bool {
	return requested != nil && text(Filled(stored)) != text(Filled(requested))
}

// save stores the changed fields and an audit row. Disabling an account ends its tokens and sessions. A demotion does
// not, because the role is read at each call.
func (s *Users) save(ctx context.Context, tx pgx.Tx, before, after User) error {
	was, is := differences(before, after)
	if len(is) == 0 {
		return nil
	}
	disabling := before.DisabledAt == nil && after.DisabledAt != nil
	if err := updateUser(ctx, tx, after, disabling); err != nil {
		return err
	}
	if disabling {
		if err := s.Sessions.EndAll(ctx, tx, after.ID, EndedByDisabled, ""); err != nil {
			return err
		}
	}
	return s.Audit.Record(ctx, tx, audit.Entry{Action: "account.update", TargetKind: SubjectKind, TargetID: after.ID, Before: was, After: is})
}

// differences returns the fields that changed, with their values before and after.
func differences(before, after User) (was, is map[string]any) {
	was, is = map[string]any{}, map[string]any{}
	note := func(field string, a, b any) {
		if a != b {
			was[field], is[field] = a, b
		}
	}
	note("role", before.Role, after.Role)
	note("email", text(before.Email), text(after.Email))
	note("display_name", text(before.DisplayName), text(after.DisplayName))
	note("disabled", before.DisabledAt != nil, after.DisabledAt != nil)
	return was, is
}

// text returns what s points to, or nil.
func text(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

// Reset gives an account a new password, which the user must change, and ends its tokens and sessions. Callers cannot
// reset their own password: a lost response would lock them out, and a thief with a stolen token could set a password
// without knowing the current one.
func (s *Users) Reset(ctx context.Context, tx pgx.Tx, userID, hash string) error {
	if authn.CallerOf(ctx).Subject == userID {
		return fault.New(fault.Conflict, "own_password", "you cannot reset your own password; change it with POST /api/profile/password")
	}
	u, err := lockUser(ctx, tx, userID)
	if err != nil {
		return err
	}
	if err := setPassword(ctx, tx, u.ID, hash, true); err != nil {
		return err
	}
	if err := s.Sessions.EndAll(ctx, tx, u.ID, EndedByReset, ""); err != nil {
		return err
	}
	return s.Audit.Record(ctx, tx, audit.Entry{Action: "account.reset_password", TargetKind: SubjectKind, TargetID: u.ID})
}
