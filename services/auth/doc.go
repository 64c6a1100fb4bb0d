// Package auth is the service that knows who people are and what is theirs: accounts, sessions,
// projects and memberships. It checks credentials for the gateway and vouches for callers between
// services. It promises that a session that was ended, an account that was disabled and a credential
// that was raised in epoch count at the next call, on every replica and without a cache store.
//
// Inside: account, team, project, profile and setting own rows; password, limit and key serve session;
// device, oidc and oauth open sessions by it; trail merges the audit of all services.
package auth
