package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// refused is the reason why a user of the provider may not sign in. It is shown to the user.
type refused struct{ why string }

// Error implements error.
func (r *refused) Error() string { return r.why }

// visit is the sign-in of one identity, in one transaction.
type visit struct {
	*SignIn

	tx      pgx.Tx
	ident   Identity
	address string
}

// admit updates the account of the identity, or creates it, and returns its id. Only one sign-in of an identity runs
// at a time. If the user may not sign in, the error is a *refused.
func (v *visit) admit(ctx context.Context) (string, error) {
	if err := lockIdentity(ctx, v.tx, v.ident); err != nil {
		return "", err
	}
	a, err := accountOf(ctx, v.tx, v.ident)
	if err != nil && !errors.Is(err, account.ErrUnknown) {
		return "", err
	}
	known := err == nil
	if known && a.DisabledAt != nil {
		return "", v.refuse(ctx, a, "the account is disabled")
	}
	if !v.Settings.admits(v.ident.Groups) {
		return "", v.refuse(ctx, a, "your groups at the sign-in provider do not allow you to sign in here")
	}
	if !known {
		if a, err = v.create(ctx); err != nil {
			return "", err
		}
	}
	for _, step := range []func(context.Context, account.Account) error{v.setRole, v.setEmail, v.setTeams} {
		if err := step(ctx, a); err != nil {
			return "", err
		}
	}
	return a.ID, touchIdentity(ctx, v.tx, v.ident, v.Clock.Now())
}

// refuse returns a *refused. If the account exists, it also records the refusal. An unknown identity gets no row,
// because anyone could fill the audit log with such rows.
func (v *visit) refuse(ctx context.Context, a account.Account, why string) error {
	if a.ID != "" {
		if err := v.record(ctx, a, "oidc.refuse", nil, map[string]string{"why": why}); err != nil {
			return err
		}
	}
	return &refused{why}
}

// create creates the account of a new identity. The account has no password: an empty hash never matches.
func (v *visit) create(ctx context.Context) (account.Account, error) {
	a := account.Account{ID: v.IDs.New(id.User), Role: v.role()}
	if v.ident.Email != "" {
		a.Email = &v.ident.Email
	}
	now := v.Clock.Now()
	for _, a.Username = range v.ident.usernames() {
		made, err := insertAccount(ctx, v.tx, a, now)
		if err != nil {
			return account.Account{}, err
		}
		if !made {
			continue
		}
		if err := insertIdentity(ctx, v.tx, v.ident, a.ID, now); err != nil {
			return account.Account{}, err
		}
		return a, v.record(ctx, a, "account.create", nil, map[string]any{
			"username": a.Username, "role": a.Role, "email": a.Email, "issuer": v.ident.Issuer, "subject": v.ident.Subject,
		})
	}
	return account.Account{}, fmt.Errorf("all usernames for the subject %q are taken", v.ident.Subject)
}

func (v *visit) role() string {
	if v.Settings.isAdmin(v.ident.Groups) {
		return account.RoleAdmin
	}
	return account.RoleOperator
}

// setRole sets the role according to the groups, except that the last admin who can sign in stays an admin. While
// password login is off, only admins with an identity of this provider can sign in. The first admin, who has only a
// password, therefore does not count. Before the last admin leaves the admin group, another user must join it and
// sign in.
func (v *visit) setRole(ctx context.Context, a account.Account) error {
	want := v.role()
	if want == a.Role {
		return nil
	}
	change := func(action string) error {
		return v.record(ctx, a, action, map[string]string{"role": a.Role}, map[string]string{"role": want})
	}
	if want == account.RoleAdmin {
		if err := promote(ctx, v.tx, a.ID); err != nil {
			return err
		}
		return change("account.role")
	}
	demoted, err := demote(ctx, v.tx, a.ID, v.ident.Issuer)
	if err != nil {
		return err
	}
	if !demoted {
		return change("account.demotion_withheld")
	}
	return change("account.role")
}

func (v *visit) setEmail(ctx context.Context, a account.Account) error {
	if v.ident.Email == "" || a.Email != nil && *a.Email == v.ident.Email {
		return nil
	}
	if err := updateEmail(ctx, v.tx, a.ID, v.ident.Email); err != nil {
		return err
	}
	return v.record(ctx, a, "account.email", map[string]any{"email": a.Email}, map[string]any{"email": v.ident.Email})
}

// setTeams updates the memberships that come from groups. Memberships set by hand stay unchanged.
func (v *visit) setTeams(ctx context.Context, a account.Account) error {
	before, _, err := account.Teams(ctx, v.tx, a.ID)
	if err != nil {
		return err
	}
	// Keys of teams that do not exist do not prevent the sign-in.
	if _, err := account.SyncTeams(ctx, v.tx, a.ID, v.Settings.teams(v.ident.Groups)); err != nil {
		return err
	}
	after, _, err := account.Teams(ctx, v.tx, a.ID)
	if err != nil || slices.Equal(before, after) {
		return err
	}
	return v.record(ctx, a, "account.teams", map[string]any{"teams": before}, map[string]any{"teams": after})
}

// record writes what a sign-in changed to the audit log, with the account itself as the actor.
func (v *visit) record(ctx context.Context, a account.Account, action string, before, after any) error {
	actor := v.Audit.Actor(ctx)
	actor.Kind, actor.ID, actor.Name = string(authn.KindUser), a.ID, a.Username
	actor.SessionID, actor.ClientAddr = "", v.address
	return v.Audit.Record(ctx, v.tx, audit.Entry{
		Action: action, TargetKind: "account", TargetID: a.ID, Before: before, After: after, Actor: &actor,
	})
}
