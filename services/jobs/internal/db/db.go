// Package db owns what every area of jobs shares about the database: the migrations of the schema, the topics of
// wake-ups between replicas, and the writer of audit rows, each in the transaction of its change. The migrations are
// forward-only and additive: each release must run on the schema of the next one.
package db

import "embed"

// Migrations are the goose files of this service's own tables.
//
//go:embed migrations/*.sql
var Migrations embed.FS
