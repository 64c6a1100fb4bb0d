// Package db owns the parts of the database that all packages of jobs share: the migrations of the schema, the topics
// of notifications between replicas, and the writer of audit rows. Migrations only go forward and only add, because each
// release must also run on the schema of the next release.
package db

import "embed"

// Migrations are the goose files of this service's own tables.
//
//go:embed migrations/*.sql
var Migrations embed.FS
