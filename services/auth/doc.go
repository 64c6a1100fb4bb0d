// Package auth is the identity service. It owns accounts, sessions, projects and memberships. It checks credentials
// for the gateway and issues the caller identities that services accept from each other. It promises that a request
// is rejected, on every replica, as soon as its session has ended, its account is disabled, or the epoch of its
// account has increased. This needs no cache service.
//
// Its packages, in the order in which a sign-in uses them: loginlimit limits login attempts, password checks the hash,
// account stores the user, session issues and renews credentials, and key signs them. device, oidc and oauth open
// sessions in other ways. team, project and profile own teams, projects and what users change of their own accounts.
// setting, maintenance and llm configure the installation. auditview merges the audit of all services. db contains
// the migrations.
package auth
