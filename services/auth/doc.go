// Package auth is the identity service. It owns accounts, sessions, projects and memberships. It checks credentials for
// the gateway and issues the caller identities that services accept from each other. It promises that a request is
// rejected, on every replica, as soon as its session has ended, its account is disabled, or the epoch of its account
// has increased. No cache service is needed.
//
// Its packages, in the order in which a sign-in uses them: loginlimit limits login attempts, password checks the hash,
// account stores the user, session issues and renews credentials, and key signs them. device, oidc and oauth open
// sessions in other ways. team and project own teams and projects. profile owns the changes that users make to their
// own accounts. setting, maintenance and llm configure the installation. auditview merges the audit of all services. db
// contains the migrations.
package auth
