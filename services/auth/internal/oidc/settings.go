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

// Settings are the provider and what its groups mean. With an issuer set, people sign in there and passwords
// open nothing.
type Settings struct {
	Issuer         string        `env:"SERVICE_OIDC_ISSUER" doc:"issuer of the OpenID provider that people sign in at, exactly as the provider names itself; passwords are off where it is set"`
	ClientID       string        `env:"SERVICE_OIDC_CLIENT_ID" doc:"what the provider calls this installation"`
	ClientSecret   secret.String `env:"SERVICE_OIDC_CLIENT_SECRET" doc:"the installation's secret at the provider"`
	Name           string        `env:"SERVICE_OIDC_NAME, default=OpenID" doc:"the provider's name on the sign-in page"`
	Scopes         []string      `env:"SERVICE_OIDC_SCOPES, default=openid,profile,email" doc:"scopes that are asked for, separated by commas; many providers want one for groups"`
	GroupsClaim    string        `env:"SERVICE_OIDC_GROUPS_CLAIM, default=groups" doc:"claim that lists a person's groups"`
	AdminGroups    []string      `env:"SERVICE_OIDC_ADMIN_GROUPS" doc:"groups whose members are admins, separated by commas"`
	OperatorGroups []string      `env:"SERVICE_OIDC_OPERATOR_GROUPS" doc:"groups whose members may sign in as operators; everybody at the provider where empty"`
	TeamGroups     []string      `env:"SERVICE_OIDC_TEAM_GROUPS" doc:"which group's members are in which team, as group=team-key separated by commas"`
}

// Enabled reports whether people sign in by a provider.
func (s *Settings) Enabled() bool { return s.Issuer != "" }

// Validate names every setting that cannot be used.
func (s *Settings) Validate() error {
	if !s.Enabled() {
		if s.ClientID != "" || !s.ClientSecret.IsZero() {
			return conf.Faultf("SERVICE_OIDC_ISSUER", "must be set, because the provider's client is")
		}
		return nil
	}
	var errs []error
	u, err := url.Parse(s.Issuer)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || egress.CheckURL(u) != nil {
		errs = append(errs, conf.Faultf("SERVICE_OIDC_ISSUER", "must be a URL like https://login.example.com"))
	}
	if s.ClientID == "" {
		errs = append(errs, conf.Faultf("SERVICE_OIDC_CLIENT_ID", "must be set with an issuer"))
	}
	if s.ClientSecret.Reveal() == "" {
		errs = append(errs, conf.Faultf("SERVICE_OIDC_CLIENT_SECRET", "must be set with an issuer"))
	}
	// Passwords are off, so an installation without this has no admin who can sign in.
	if !slices.ContainsFunc(s.AdminGroups, notEmpty) {
		errs = append(errs, conf.Faultf("SERVICE_OIDC_ADMIN_GROUPS", "must name a group: nobody else could administer the installation"))
	}
	if s.GroupsClaim == "" {
		errs = append(errs, conf.Faultf("SERVICE_OIDC_GROUPS_CLAIM", "must not be empty"))
	}
	for _, entry := range s.TeamGroups {
		if _, _, ok := cutTeam(entry); !ok {
			errs = append(errs, conf.Faultf("SERVICE_OIDC_TEAM_GROUPS", "must be group=team-key, got %q", entry))
		}
	}
	return errors.Join(errs...)
}

func notEmpty(s string) bool { return s != "" }

// cutTeam splits at the last sign, because a group may be named by an LDAP path.
func cutTeam(entry string) (group, team string, ok bool) {
	at := strings.LastIndexByte(entry, '=')
	if at < 1 || at == len(entry)-1 {
		return "", "", false
	}
	return entry[:at], entry[at+1:], true
}

// scopes always has `openid`, without which there is no identity.
func (s *Settings) scopes() []string {
	if slices.Contains(s.Scopes, "openid") {
		return s.Scopes
	}
	return append([]string{"openid"}, s.Scopes...)
}

// admits says whether the groups open the installation.
func (s *Settings) admits(groups []string) bool {
	return !slices.ContainsFunc(s.OperatorGroups, notEmpty) || meet(s.OperatorGroups, groups) || s.isAdmin(groups)
}

func (s *Settings) isAdmin(groups []string) bool { return meet(s.AdminGroups, groups) }

// teams are the keys of the teams that the groups lead to, each once and in order.
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

// meet says whether two lists share a name; an empty one is none.
func meet(named, has []string) bool {
	return slices.ContainsFunc(named, func(g string) bool { return g != "" && slices.Contains(has, g) })
}
