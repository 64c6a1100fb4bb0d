// Package auth is the identity service: it owns accounts, sessions, projects and memberships. It checks
// credentials for the gateway and issues the caller identities that services accept from each other. It promises
// that the end of a session, the disabling of an account and a raised credential epoch take effect at the next
// call, on every replica and without a cache store.
//
// Inside: account, team, project, profile and setting own rows; password, limit and key serve session; device,
// oidc and oauth open sessions through it; trail merges the audit of all services.
package auth
