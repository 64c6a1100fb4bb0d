// Package profile owns what a person sees and changes of himself: how he is shown and what his pages begin
// with, his password, and his sessions. It promises that a new password ends every other session and every
// access token, the calling session's too: that session lives on and gets its next token by its refresh; and
// that guessing a password here is counted as guessing it at the sign-in.
package profile

import (
	"regexp"
	"time"
	// The time zones of a host differ, or are missing.
	_ "time/tzdata"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// Profile is what a person sees of himself.
type Profile struct {
	ID          string
	Username    string
	Role        string
	DisplayName *string
	Email       *string
	Locale      *string
	TZ          *string
	Theme       *string
	// ProjectID is the project that commands and pages begin with.
	ProjectID *string

	// provided says that the account is a sign-in provider's.
	provided bool
}

// Change is what a person changes; nil is left as it is.
type Change struct{ DisplayName, Email, Locale, TZ, Theme, ProjectID *string }

// zone is how the names of time zones look. What else a host has in the same folder is none, nor is its own.
var zone = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`)

// checkTZ refuses what is no time zone of the IANA's.
func checkTZ(name string) error {
	if zone.MatchString(name) && name != "Local" {
		if _, err := time.LoadLocation(name); err == nil {
			return nil
		}
	}
	return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should be an IANA time zone such as Europe/Berlin", "tz"))
}

// apply is the profile as the change makes it.
func (p Profile) apply(c Change) (Profile, error) {
	if c.DisplayName != nil {
		if err := account.CheckName("display_name", *c.DisplayName); err != nil {
			return p, err
		}
		p.DisplayName = c.DisplayName
	}
	if c.Email != nil && (p.Email == nil || *p.Email != *c.Email) {
		if p.provided {
			return p, account.EmailOfProvider()
		}
		p.Email = c.Email
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

// differences are the fields that changed, before and after.
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
