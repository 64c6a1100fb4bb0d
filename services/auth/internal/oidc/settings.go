package oidc

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/egress"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Settings describe the provider and what its groups mean. If Issuer is set, users sign in with the provider and
// password login is off.
type Settings struct {
	Issuer         string        `env:"SERVICE_OIDC_ISSUER" doc:"issuer of the OpenID provider that users sign in with, exactly as in its metadata; if it is set, password login is off"`
	ClientID       string        `env:"SERVICE_OIDC_CLIENT_ID" doc:"client id of this installation at the provider"`
	ClientSecret   secret.String `env:"SERVICE_OIDC_CLIENT_SECRET" doc:"client secret of this installation at the provider"`
	Name           string        `env:"SERVICE_OIDC_NAME, default=OpenID" doc:"the provider's name on the sign-in page"`
	Scopes         []string      `env:"SERVICE_OIDC_SCOPES, default=openid,profile,email" doc:"scopes to request, separated by commas; many providers require a separate scope for groups"`
	GroupsClaim    string        `env:"SERVICE_OIDC_GROUPS_CLAIM, default=groups" doc:"claim that lists a user's groups"`
	AdminGroups    []string      `env:"SERVICE_OIDC_ADMIN_GROUPS" doc:"groups whose members are admins, separated by commas"`
	OperatorGroups []string      `env:"SERVICE_OIDC_OPERATOR_GROUPS" doc:"groups whose members may sign in as operators, separated by commas; if empty, all users of the provider may"`
	TeamGroups     []string      `env:"SERVICE_OIDC_TEAM_GROUPS" doc:"teams that the members of a group join, as group=team-key separated by commas"`
}

// Enabled reports whether users sign in with a provider.
func (s *Settings) Enabled() bool { return s.Issuer != "" }

// Validate returns an error that names every invalid setting.
func (s *Settings) Validate() error {
	if !s.Enabled() {
		if s.ClientID != "" || !s.ClientSecret.IsZero() {
			return conf.Errorf("SERVICE_OIDC_ISSUER", "must be set if SERVICE_OIDC_CLIENT_ID or SERVICE_OIDC_CLIENT_SECRET is set")
		}
		return nil
	}
	var errs []error
	u, err := url.Parse(s.Issuer)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || egress.CheckURL(u) != nil {
		errs = append(errs, conf.Errorf("SERVICE_OIDC_ISSUER", "must be a URL without query and fragment, such as https://login.example.com"))
	}
	if s.ClientID == "" {
		errs = append(errs, conf.Errorf("SERVICE_OIDC_CLIENT_ID", "must be set if SERVICE_OIDC_ISSUER is set"))
	}
	if s.ClientSecret.Reveal() == "" {
		errs = append(errs, conf.Errorf("SERVICE_OIDC_CLIENT_SECRET", "must be set if SERVICE_OIDC_ISSUER is set"))
	}
	// Password login is off, so without an admin group no admin could sign in.
	if !slices.ContainsFunc(s.AdminGroups, notEmpty) {
		errs = append(errs, conf.Errorf("SERVICE_OIDC_ADMIN_GROUPS", "must contain a group; without one, no admin can sign in"))
	}
	if s.GroupsClaim == "" {
		errs = append(errs, conf.Errorf("SERVICE_OIDC_GROUPS_CLAIM", "must not be empty"))
	}
	for _, entry := range s.TeamGroups {
		if _, _, ok := cutTeam(entry); !ok {
			errs = append(errs, conf.Errorf("SERVICE_OIDC_TEAM_GROUPS", "must have entries of the form group=team-key, got %q", entry))
		}
	}
	return errors.Join(errs...)
}

func notEmpty(s string) bool { return s != "" }

// cutTeam splits an entry at its last equals sign, because the name of a group may be an LDAP path.
func cutTeam(entry string) (group, team string, ok bool) {
	at := strings.LastIndexByte(entry, '=')
	if at < 1 || at == len(entry)-1 {
		return "", "", false
	}
	return entry[:at], entry[at+1:], true
}

// scopes returns the scopes to request. `openid` is always one of them, because without
// it a provider need not return an ID token.
func (s *Settings) scopes() []string {
	if slices.Contains(s.Scopes, "openid") {
		return s.Scopes
	}
	return append([]string{"openid"}, s.Scopes...)
}

// admits reports whether a user with these groups may sign in.
func (s *Settings) admits(groups []string) bool {
	return !slices.ContainsFunc(s.OperatorGroups, notEmpty) || meet(s.OperatorGroups, groups) || s.isAdmin(groups)
}

func (s *Settings) isAdmin(groups []string) bool { return meet(s.AdminGroups, groups) }

// teams returns the keys of the teams that the members of these groups join, sorted and without duplicates.
func (s *Settings) teams(groups []string) []string {
	var keys []string
	for _, entry := range s.TeamGroups {
		if group, team, ok := cutTeam(entry); ok && slices.Contains(groups, group) {
			keys = append(keys, team)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// meet reports whether two lists have a non-empty name in common.
func meet(named, has []string) bool {
	return slices.ContainsFunc(named, func(g string) bool { return g != "" && slices.Contains(has, g) })
}
