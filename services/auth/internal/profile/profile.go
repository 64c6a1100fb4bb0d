// Package profile owns what users see and change of their own accounts: the profile, the password and the sessions.
// It promises that a new password ends all access tokens and all other sessions. The calling session continues and
// gets its next access token by a refresh. It also promises that attempts to change a password count as login attempts
// (package loginlimit).
package profile

import (
	"regexp"
	"time"
	// Embed the time zones, because a host may have none.
	_ "time/tzdata"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// Profile is the part of an account that its user sees.
type Profile struct {
	ID          string
	Username    string
	Role        string
	DisplayName *string
	Email       *string
	Locale      *string
	TZ          *string
	Theme       *string
	// ProjectID is the default project of commands and pages.
	ProjectID *string

	// provided is true if a sign-in provider manages the account.
	provided bool
}

// Change holds the fields to change; nil leaves a field unchanged. An empty DisplayName or Email removes it.
type Change struct{ DisplayName, Email, Locale, TZ, Theme, ProjectID *string }

// zone matches the names of IANA time zones and excludes other files in the host's zone folder.
var zone = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`)

// checkTZ returns an error if the name does not belong to an IANA time zone.
func checkTZ(name string) error {
	if zone.MatchString(name) && name != "Local" {
		if _, err := time.LoadLocation(name); err == nil {
			return nil
		}
	}
	return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should be an IANA time zone such as Europe/Berlin", "tz"))
}

// apply returns the profile with the change applied.
func (p Profile) apply(c Change) (Profile, error) {
	if c.DisplayName != nil {
		if err := account.CheckName("display_name", *c.DisplayName); err != nil && *c.DisplayName != "" {
			return p, err
		}
		p.DisplayName = account.Filled(c.DisplayName)
	}
	if account.ChangesText(p.Email, c.Email) {
		if p.provided {
			return p, account.EmailOfProvider()
		}
		p.Email = account.Filled(c.Email)
	}
	if c.TZ != nil {
		if err := checkTZ(*c.TZ); err != nil {
			return p, err
		}
		p.TZ = c.TZ
	}
	for to, from := range map[**string]*string{&p.Locale: c.Locale, &p.Theme: c.Theme, &p.ProjectID: c.ProjectID} {
		if from != nil {
			*to = from
		}
	}
	return p, nil
}

// differences returns the changed fields with their values before and after.
func differences(before, after Profile) (was, is map[string]any) {
	was, is = map[string]any{}, map[string]any{}
	for field, of := range map[string]func(Profile) *string{
		"display_name":       func(p Profile) *string { return p.DisplayName },
		"email":              func(p Profile) *string { return p.Email },
		"locale":             func(p Profile) *string { return p.Locale },
		"tz":                 func(p Profile) *string { return p.TZ },
		"theme":              func(p Profile) *string { return p.Theme },
		"default_project_id": func(p Profile) *string { return p.ProjectID },
	} {
		a, b := of(before), of(after)
		if (a == nil) != (b == nil) || a != nil && *a != *b {
			was[field], is[field] = a, b
		}
	}
	return was, is
}
