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

// refused is why somebody whom the provider knows does not get in, in words for him.
type refused struct{ why string }

// Error implements error.
func (r *refused) Error() string { return r.why }

// visit is one identity at the door, in one transaction.
type visit struct {
	*SignIn

	tx      pgx.Tx
	who     Identity
	address string
}

// admit answers the account of the identity as the provider's word makes it. One of an identity is at work at
// a time.
func (v *visit) admit(ctx context.Context) (string, error) {
	if err := lockIdentity(ctx, v.tx, v.who); err != nil {
		return "", err
	}
	a, err := accountOf(ctx, v.tx, v.who)
	if err != nil && !errors.Is(err, account.ErrUnknown) {
		return "", err
	}
	known := err == nil
	if known && a.DisabledAt != nil {
		return "", v.refuse(ctx, a, "The account is disabled")
	}
	if !v.Settings.admits(v.who.Groups) {
		return "", v.refuse(ctx, a, "Your groups at the sign-in provider do not open this installation")
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
	return a.ID, touchIdentity(ctx, v.tx, v.who, v.Clock.Now())
}

// refuse puts a refusal of a known account on record. A stranger leaves no row: he could fill the record.
func (v *visit) refuse(ctx context.Context, a account.Account, why string) error {
	if a.ID != "" {
		if err := v.record(ctx, a, "oidc.refuse", nil, map[string]string{"why": why}); err != nil {
			return err
		}
	}
	return &refused{why}
}

// create makes the account of a new identity. It has no password: an empty hash never matches.
func (v *visit) create(ctx context.Context) (account.Account, error) {
	a := account.Account{ID: v.IDs.New(id.User), Role: v.role()}
	if v.who.Email != "" {
		a.Email = &v.who.Email
	}
	now := v.Clock.Now()
	for _, a.Username = range v.who.usernames() {
		made, err := insertAccount(ctx, v.tx, a, now)
		if err != nil {
			return account.Account{}, err
		}
		if !made {
			continue
		}
		if err := insertIdentity(ctx, v.tx, v.who, a.ID, now); err != nil {
			return account.Account{}, err
		}
		return a, v.record(ctx, a, "account.create", nil, map[string]any{
			"username": a.Username, "role": a.Role, "email": a.Email, "issuer": v.who.Issuer, "subject": v.who.Subject,
		})
	}
	return account.Account{}, fmt.Errorf("no username is free for the subject %q", v.who.Subject)
}

func (v *visit) role() string {
	if v.Settings.isAdmin(v.who.Groups) {
		return account.RoleAdmin
	}
	return account.RoleOperator
}

// setRole follows the groups, with one exception: the last admin who can sign in, which means by this
// provider while passwords are off, stays one. The first admin's password account does not count, because it
// opens nothing. Whoever shall follow him is put into the group at the provider and signs in first.
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
	demoted, err := demote(ctx, v.tx, a.ID, v.who.Issuer)
	if err != nil {
		return err
	}
	if !demoted {
		return change("account.demotion_withheld")
	}
	return change("account.role")
}

func (v *visit) setEmail(ctx context.Context, a account.Account) error {
	if v.who.Email == "" || a.Email != nil && *a.Email == v.who.Email {
		return nil
	}
	if err := updateEmail(ctx, v.tx, a.ID, v.who.Email); err != nil {
		return err
	}
	return v.record(ctx, a, "account.email", map[string]any{"email": a.Email}, map[string]any{"email": v.who.Email})
}

// setTeams follows the groups in the memberships that came from groups; those made by hand stay.
func (v *visit) setTeams(ctx context.Context, a account.Account) error {
	before, _, err := account.Teams(ctx, v.tx, a.ID)
	if err != nil {
		return err
	}
	// Keys of teams that are not there (yet) are no reason to keep anybody out.
	if _, err := account.SyncTeams(ctx, v.tx, a.ID, v.Settings.teams(v.who.Groups)); err != nil {
		return err
	}
	after, _, err := account.Teams(ctx, v.tx, a.ID)
	if err != nil || slices.Equal(before, after) {
		return err
	}
	return v.record(ctx, a, "account.teams", map[string]any{"teams": before}, map[string]any{"teams": after})
}

// record writes what a sign-in did to the account as its person's own doing.
func (v *visit) record(ctx context.Context, a account.Account, action string, before, after any) error {
	actor := v.Audit.Actor(ctx)
	actor.Kind, actor.ID, actor.Name = string(authn.KindUser), a.ID, a.Username
	actor.SessionID, actor.ClientAddr = "", v.address
	return v.Audit.Record(ctx, v.tx, audit.Entry{
		Action: action, TargetKind: "account", TargetID: a.ID, Before: before, After: after, Actor: &actor,
	})
}
