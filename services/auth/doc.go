// Package auth is the identity service: it owns accounts, sessions, projects and memberships. It checks
// credentials for the gateway and issues the caller identities that services accept from each other. It promises
// that the end of a session, the disabling of an account and a raised credential epoch take effect at the next
// call, on every replica and without a cache store.
//
// Its areas, in the order in which a sign-in passes them: ratelimit counts the tries, password checks the hash,
// account holds the user, session issues and renews credentials, and key signs them. device, oidc and oauth open
// sessions in other ways. team, project and profile own what users belong to and change; setting, maintenance and llm
// configure the installation; auditview merges the audit of all services. db holds the migrations.
package auth
